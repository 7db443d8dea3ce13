"""`@record` in place of `@dataclass`, for classes that nearly every command imports.

`dataclass` writes and compiles methods for each class, a third of a millisecond; twenty of them were a tenth of what a
small problem takes. A record is a dataclass to type checkers, and to `dataclasses.replace`, `fields` and `asdict`; it
is made and compared by methods that all records share, until so many of a class are made that its own pays.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dataclasses import dataclass as record
else:
    from dataclasses import MISSING, Field, dataclass

    _MANY = 100

    def record(cls: type) -> type:
        """The class, of which the annotations are its fields, as `dataclass` reads them, after those of its base."""
        cls._record_types = {**getattr(cls, "_record_types", {}), **cls.__annotations__}
        cls._record_given = dict(getattr(cls, "_record_given", {}))  # defaults, and what `field` says of them
        for name in cls.__annotations__:
            if name in cls.__dict__:
                cls._record_given[name] = default = cls.__dict__[name]
                if isinstance(default, Field):
                    delattr(cls, name)
                    if default.default is not MISSING:
                        setattr(cls, name, default.default)
        cls._record_count = 0
        cls._record_order = [n for n in cls._record_types if getattr(cls._record_given.get(n), "init", True)]
        for method, shared in (("__init__", _init), ("__repr__", _repr), ("__eq__", _eq), ("__hash__", None)):
            if method not in cls.__dict__:
                setattr(cls, method, shared)
        for name in ("__dataclass_fields__", "__dataclass_params__"):
            setattr(cls, name, _Told(name))
        return cls

    def _twin(cls: type) -> type:
        """The dataclass with the same fields."""
        body = {"__annotations__": cls._record_types, "__module__": cls.__module__, **cls._record_given}
        return dataclass(type(cls.__name__, (), body))

    class _Told:
        """What `dataclasses`, and others who know them, ask of the class: made when it is asked for."""

        def __init__(self, name: str) -> None:
            self.name = name

        def __get__(self, instance: Any, owner: type) -> Any:
            told = getattr(_twin(owner), self.name)
            setattr(owner, self.name, told)
            return told

    def _init(self: Any, *values: Any, **named: Any) -> None:
        cls, own = type(self), self.__dict__
        cls._record_count += 1
        if cls._record_count == _MANY:
            cls.__init__ = _twin(cls).__init__
        own.update(zip(cls._record_order, values, strict=False))
        twice = own.keys() & named.keys()
        own.update(named)
        if len(own) < len(cls._record_types):
            for name, default in cls._record_given.items():
                if name not in own:
                    own[name] = _made(default) if isinstance(default, Field) else default
        if len(values) > len(cls._record_order) or twice or own.keys() != cls._record_types.keys():
            raise TypeError(f"{cls.__name__}() takes {', '.join(cls._record_order)} once each")

    def _made(default: Field) -> Any:
        return default.default if default.default is not MISSING else default.default_factory()

    def _repr(self: Any) -> str:
        shown = ", ".join(f"{name}={getattr(self, name)!r}" for name in self._record_types)
        return f"{type(self).__qualname__}({shown})"

    def _eq(self: Any, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        names = [n for n in self._record_types if getattr(self._record_given.get(n), "compare", True)]
        return all(_same(getattr(self, name), getattr(other, name)) for name in names)

    def _same(one: Any, other: Any) -> bool:
        """Equal, arrays cell by cell, in lists and dictionaries too."""
        if one is other:
            return True
        if hasattr(one, "shape") and hasattr(other, "shape"):
            return one.shape == other.shape and bool(((one == other) | ((one != one) & (other != other))).all())
        if isinstance(one, dict) and isinstance(other, dict):
            return one.keys() == other.keys() and all(_same(one[key], other[key]) for key in one)
        if isinstance(one, (list, tuple)) and isinstance(other, (list, tuple)):
            return len(one) == len(other) and all(map(_same, one, other))
        return bool(one == other)


__all__ = ["record"]
