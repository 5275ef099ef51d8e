"""typing.NamedTuple for the modules that every import of torch_fl runs: the same records, sooner defined.

A NamedTuple class compiles code and evaluates the types of its fields, some 80 microseconds each; the twenty on the way
to a load would take a third of the time that it may cost. A type checker sees NamedTuple itself.
Modules that define a Record have `from __future__ import annotations`, so that no field type is evaluated.
"""

from __future__ import annotations

from operator import itemgetter
from typing import TYPE_CHECKING, Any, ClassVar, Dict, Tuple

__all__ = ["Record"]

if TYPE_CHECKING:
    from typing import NamedTuple as Record
else:

    class Record(tuple):
        """A tuple with named fields, in the order of the annotations; see typing.NamedTuple."""

        __slots__ = ()
        _fields: ClassVar[Tuple[str, ...]] = ()
        _field_defaults: ClassVar[Dict[str, Any]] = {}

        def __init_subclass__(cls) -> None:
            own = cls.__dict__
            cls._fields = tuple(own["__annotations__"])
            cls._field_defaults = {name: own[name] for name in cls._fields if name in own}
            for index, name in enumerate(cls._fields):
                setattr(cls, name, property(itemgetter(index)))

        def __new__(cls, *values: Any, **named: Any) -> Record:
            fields = cls._fields
            if len(values) == len(fields) and not named:
                return tuple.__new__(cls, values)
            if len(values) > len(fields):
                raise TypeError(f"{cls.__name__} has {len(fields)} fields, {len(values)} were given")
            rest = fields[len(values) :]
            known = {**cls._field_defaults, **named}
            wrong = [name for name in named if name not in rest] + [name for name in rest if name not in known]
            if wrong:
                raise TypeError(f"{cls.__name__}: {', '.join(wrong)} missing, unknown or given twice")
            return tuple.__new__(cls, (*values, *[known[name] for name in rest]))

        @classmethod
        def _make(cls, values: Any) -> Record:
            return cls(*values)

        def _replace(self, **changes: Any) -> Record:
            unknown = [name for name in changes if name not in self._fields]
            if unknown:
                raise ValueError(f"{type(self).__name__} has no {', '.join(unknown)}")
            return tuple.__new__(type(self), [changes.get(name, old) for name, old in zip(self._fields, self)])

        def _asdict(self) -> Dict[str, Any]:
            return dict(zip(self._fields, self))

        def __getnewargs__(self) -> Tuple[Any, ...]:
            return tuple(self)

        def __repr__(self) -> str:
            return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in self._asdict().items())})"
