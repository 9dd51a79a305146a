"""Containers, closures, globals, attributes and classes: what guards follow."""

from state.base import Box, DerivedSlots, OtherBox, Slots, nothing, plain

some_global, some_list = 1.0, [1.0]


@plain
def constant():
    return lambda: 2.0, nothing


@plain
def in_a_list():
    a = [1.0, 2.0]

    def change():
        a[0] += 1

    return lambda: a[0], change


@plain
def length_of_a_list():
    a = [1.0]
    return lambda: len(a), lambda: a.append(1.0)


@plain
def in_a_dict():
    a = {"k": [1.0], 2: 5}

    def change():
        a["k"][0] += 1

    return lambda: a["k"][0] + a[2], change


@plain
def keys_of_a_dict():
    a = {1: 0}

    def change():
        a[len(a) + 5] = 0

    return lambda: sum(a) + len(a.keys()), change


@plain
def order_of_a_dict():
    a = {"x": 1.0, "y": 2.0}

    def change():
        a["x"] = a.pop("x")
        a["y"] = a.pop("y") + 1

    return lambda: next(iter(a.values())) * 3 + list(a.items())[-1][1], change


@plain
def in_a_tuple_of_lists():
    a = ([1.0], (2, [3.0]))

    def change():
        a[1][1][0] += 1

    return lambda: a[0][0] + a[1][1][0], change


@plain
def in_a_set():
    a = {1, 2}
    return lambda: sum(a) + (3 in a), lambda: a.add(max(a) + 1)


@plain
def of_equal_members():
    a = {1}

    def change():
        a.clear()
        a.add(2.5 if 1 in a or 1.0 in a else 1)
        a.add(1.0)

    return lambda: float(sum(a)) + len(str(sorted(a))), change


@plain
def by_closure():
    k = 1.0

    def change():
        nonlocal k
        k += 1

    return lambda: k, change


@plain
def by_two_closures():
    k = 1.0

    def outer():
        def inner():
            return k * 2

        return inner

    def change():
        nonlocal k
        k += 1

    made = outer()
    return lambda: made() + 1, change


@plain
def a_rebound_function():
    def one():
        return 1.0

    def two():
        return 2.0

    f = one

    def change():
        nonlocal f
        f = two if f is one else one

    return lambda: f(), change


@plain
def by_global():
    def change():
        global some_global
        some_global += 1

    return lambda: some_global, change


@plain
def in_a_global_list():
    def change():
        some_list[0] += 1

    return lambda: some_list[0], change


@plain
def by_attribute():
    box = Box()

    def change():
        box.k += 1

    return lambda: box.k, change


@plain
def by_method():
    box = Box()

    def change():
        box.k += 1

    return lambda: box.value(), change


@plain
def by_call_of_an_object():
    box = Box()

    def change():
        box.k += 1

    return lambda: box(), change


@plain
def by_bound_method():
    box = Box()
    method = box.value

    def change():
        box.k += 1

    return lambda: method(), change


@plain
def by_class_attribute():
    class Holder:
        k = 1.0

    holder = Holder()

    def change():
        Holder.k += 1

    return lambda: holder.k + Holder.k, change


@plain
def by_attribute_of_a_base():
    class Base:
        k = 1.0

    class Holder(Base):
        pass

    def change():
        Base.k += 1

    return lambda: Holder.k, change


@plain
def by_other_bases():
    class A:
        k = 1.0

    class B:
        k = 5.0

    class C(A):
        pass

    c = C()

    def change():
        C.__bases__ = (B,) if C.__bases__ == (A,) else (A,)

    return lambda: c.k, change


@plain
def by_class_of_an_object():
    box = Box()

    def change():
        box.__class__ = OtherBox if type(box) is Box else Box

    return lambda: box.value() + (3 if isinstance(box, OtherBox) else 4) + (type(box) is Box), change


@plain
def by_class_of_an_empty_object():
    class A:
        pass

    class B:
        pass

    a = A()

    def change():
        a.__class__ = B if type(a) is A else A

    return lambda: 2 if isinstance(a, A) else 3, change


@plain
def by_instance_dict():
    box = Box()

    def change():
        box.__dict__ = {"k": box.k + 1}

    return lambda: box.k, change


@plain
def by_slots():
    a = Slots()
    a.k = 1.0

    def change():
        a.k += 1

    return lambda: a.k, change


@plain
def by_slots_of_a_base():
    a = DerivedSlots()
    a.k, a.other = 1.0, 2.0

    def change():
        a.k += 1

    return lambda: a.k + a.other, change


@plain
def by_property():
    k = 1.0

    class Holder:
        @property
        def value(self):
            return k

    holder = Holder()

    def change():
        nonlocal k
        k += 1

    return lambda: holder.value, change


@plain
def by_replaced_property():
    class Holder:
        value = property(lambda self: 1.0)

    holder, count = Holder(), [1]

    def change():
        count[0] += 1
        n = count[0]
        Holder.value = property(lambda self: float(n))

    return lambda: holder.value, change


@plain
def by_getattr_hook():
    class Holder:
        def __init__(self):
            self.inside = {"k": 1.0}

        def __getattr__(self, name):
            return self.__dict__["inside"][name]

    holder = Holder()

    def change():
        holder.inside["k"] += 1

    return lambda: holder.k, change


@plain
def by_descriptor():
    class Gives:
        k = 1.0

        def __get__(self, instance, owner):
            return self.k

    gives = Gives()

    class Holder:
        value = gives

    holder = Holder()

    def change():
        gives.k += 1

    return lambda: holder.value, change


@plain
def by_static_and_class_methods():
    k = [1.0]

    class Holder:
        j = 1.0

        @staticmethod
        def first():
            return k[0]

        @classmethod
        def second(cls):
            return cls.j

    def change():
        k[0] += 1
        Holder.j += 2

    return lambda: Holder.first() + Holder().second(), change


@plain
def by_replaced_method():
    class Holder:
        def value(self):
            return 1.0

    holder, count = Holder(), [1]

    def change():
        count[0] += 1
        n = count[0]
        Holder.value = lambda self: float(n)

    return lambda: holder.value(), change


@plain
def by_method_on_the_instance():
    box, count = Box(), [1]

    def change():
        count[0] += 1
        n = count[0]
        box.value = lambda: float(n)

    return lambda: box.value(), change


@plain
def by_special_methods():
    class Number:
        def __init__(self, k):
            self.k = k

        def __float__(self):
            return self.k

        def __add__(self, other):
            return self.k + other

        def __len__(self):
            return int(self.k)

        def __getitem__(self, i):
            return self.k + i

        def __contains__(self, i):
            return i < self.k

        def __bool__(self):
            return self.k > 2

        def __eq__(self, other):
            return self.k == other

        def __iter__(self):
            yield from range(int(self.k))

    number = Number(1.0)

    def change():
        number.k += 1

    return (
        lambda: (
            float(number)
            + (number + 1)
            + len(number)
            + number[2]
            + (2 in number)
            + bool(number)
            + (number == 3)
            + sum(number)
        ),
        change,
    )


@plain
def by_metaclass():
    class Meta(type):
        k = 1.0

        def __getattr__(cls, name):
            return Meta.k

    class Holder(metaclass=Meta):
        pass

    def change():
        Meta.k += 1

    return lambda: Holder.anything, change
