"""What torch.cuda and torch.xpu have in common, by concern: each file has a class whose methods are the functions of a
room, made for one device type."""


class Room:
    """The functions of a room for one type of device."""

    def __init__(self, kind, word):
        self._kind, self._word = kind, word

    def functions(self, without=()):
        """{name: function}, for the room's globals."""
        names = [
            name
            for part in type(self).__mro__
            if part not in (Room, object)
            for name in vars(part)
            if not name.startswith("_")
        ]
        return {name: getattr(self, name) for name in names if name not in without}


def loaded_later(room, places):
    """A room's __getattr__: places says in which of its modules a name is, '' for the modules themselves."""
    where = {name: module for module, names in places.items() for name in names.split()}

    def __getattr__(name):
        from importlib import import_module

        if name not in where:
            raise AttributeError(f"module 'torch.{room}' has no attribute '{name}'")
        if not where[name]:
            return import_module(f"taper.{room}.{name}")
        return getattr(import_module(f"taper.{room}.{where[name]}"), name)

    return __getattr__
