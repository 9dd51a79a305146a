"""What torch.cuda and torch.xpu have in common, by concern: each file has a class whose methods are the functions of a
package, made for one device type."""


class DeviceFunctions:
    """The functions of a module like torch.cuda, for one type of device."""

    def __init__(self, kind, word):
        self._kind, self._word = kind, word

    def functions(self, without=()):
        """{name: function}, for the module's globals."""
        names = [
            name
            for part in type(self).__mro__
            if part not in (DeviceFunctions, object)
            for name in vars(part)
            if not name.startswith("_")
        ]
        return {name: getattr(self, name) for name in names if name not in without}


def loaded_later(package, places):
    """A package's __getattr__: places says in which of its modules a name is, '' for the modules themselves."""
    where = {name: part for part, names in places.items() for name in names.split()}

    def __getattr__(name):
        from importlib import import_module

        if name not in where:
            raise AttributeError(f"module 'torch.{package}' has no attribute '{name}'")
        if not where[name]:
            return import_module(f"taper.{package}.{name}")
        return getattr(import_module(f"taper.{package}.{where[name]}"), name)

    return __getattr__
