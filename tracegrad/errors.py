"""Every error tracegrad raises, and how the user's source line gets into its text.

Each class also derives from the builtin a NumPy or PyTorch user would catch. The first line says what is wrong in the
user's terms; then comes their source line; then the fix.
"""

from __future__ import annotations

import copy
import linecache
import os
import sys
from types import CodeType, FrameType

import numpy as np

from tracegrad.ir.graph import Location

_PACKAGE = os.path.dirname(os.path.abspath(__file__)) + os.sep
_NUMPY = os.path.dirname(os.path.abspath(np.__file__)) + os.sep
_SCIPY = os.path.join(os.path.dirname(os.path.dirname(_NUMPY)), "scipy") + os.sep
_COPY = str(copy.__file__)  # whose deepcopy calls a method of ours for what the user copies


class _Internal(dict[str, bool]):
    """Per file whether it belongs to tracegrad, NumPy, SciPy or the module copy, not to the user."""

    def __missing__(self, file: str) -> bool:
        known = self[file] = file.startswith((_PACKAGE, _NUMPY, _SCIPY, _COPY, "<__array_function__", "<frozen"))
        return known


_internal = _Internal()
_locations: dict[tuple[CodeType, int], Location] = {}  # by code and line
_places: dict[tuple[int, int], tuple[CodeType, Location]] = {}  # by id of the code, which is kept, and instruction


def is_internal(code: CodeType) -> bool:
    """Whether a frame of this code belongs to tracegrad, NumPy or SciPy, not to the user."""
    return _internal[code.co_filename]


def user_location(depth: int = 1) -> Location | None:
    """The line of the innermost frame that is the user's; None if there is none. `depth` frames are known not to be."""
    frame: FrameType | None = sys._getframe(depth)
    while frame is not None:
        code = frame.f_code
        if not _internal[code.co_filename]:
            found = _places.get((id(code), frame.f_lasti))
            return found[1] if found is not None else _new_place(code, frame)
        frame = frame.f_back
    return None


def _new_place(code: CodeType, frame: FrameType) -> Location:
    """The line at which a frame is, found from now on by its instruction: to read a line number takes long."""
    key = code, frame.f_lineno
    location = _locations.get(key)
    if location is None:
        location = _locations[key] = Location(code.co_filename, frame.f_lineno, code.co_name)
    _places[id(code), frame.f_lasti] = code, location
    return location


class TracegradError(Exception):
    """The root of all errors. `location` is the user's line (found by itself if not given), `fix` what to do."""

    def __init__(self, message: str, *, fix: str = "", location: Location | None = None):
        self.message, self.fix = message, fix
        self.location = location if location is not None else user_location()
        super().__init__(message)

    def __str__(self) -> str:
        text = self.message
        if self.location is not None:
            source = linecache.getline(self.location.file, self.location.line).strip()
            text += f'\n  File "{self.location.file}", line {self.location.line}, in {self.location.function}'
            if source:
                text += f"\n    {source}\n    {'^' * len(source)}"
        if self.fix:
            text += f"\n  Fix: {self.fix}"
        return text


class ShapeError(TracegradError, ValueError, RuntimeError):
    """Shapes, axes or sizes that do not go together: a ValueError to NumPy's users, a RuntimeError to PyTorch's."""


class DTypeError(TracegradError, TypeError, RuntimeError):
    """A dtype the operation or transformation cannot take: PyTorch raises RuntimeError where NumPy raises TypeError."""


class ArgumentError(TracegradError, TypeError):
    """An argument of a transformation or function that makes no sense there."""


class OptionError(ArgumentError, ValueError):
    """Options that contradict each other, or one that is out of range."""


class LeavesTraceError(TracegradError, TypeError, RuntimeError):
    """A traced value was turned into a plain number or array, so that its derivative would be lost.

    PyTorch raises RuntimeError where NumPy's users expect TypeError; this is both.
    """


class FrozenRandomError(LeavesTraceError):
    """Random numbers of another generator than tracegrad's, drawn while a function was traced."""


class SymbolicValueError(ArgumentError):
    """A value in the body of a loop or branch, which has no number yet, was asked for one."""


class LeavesFunctionBody(BaseException):
    """Not an error: the signal that a user's Function, while it is traced, turns a value into plain numbers.

    It becomes a call into Python then. Not an Exception, so that the Function's own `except` lets it pass.
    """


class UnsupportedError(TracegradError, TypeError):
    """A NumPy or SciPy function, or a form of one, that tracegrad does not have."""


class AutogradError(TracegradError, RuntimeError):
    """Misuse of the autograd contract: no graph, freed graph, in-place modification, wrong gradients returned."""


class NonScalarError(AutogradError, TypeError):
    """The gradient of something that is not one real number."""


class BackwardNotImplementedError(TracegradError, NotImplementedError):
    """A Function, or an operation, without a derivative."""


class TracegradIndexError(TracegradError, IndexError):
    """An index out of range."""


class GradcheckError(TracegradError, RuntimeError):
    """gradcheck found a difference."""


class ModuleNameError(TracegradError, KeyError):
    """A name that a parameter, buffer or child of a Module cannot have."""

    __str__ = TracegradError.__str__


class ModuleAttributeError(TracegradError, AttributeError):
    """An attribute of a Module assigned before Module.__init__()."""


class ModuleTypeError(TracegradError, TypeError):
    """A value of the wrong type assigned to a parameter, buffer or child of a Module."""


class ModuleStateError(TracegradError, RuntimeError):
    """A state_dict that does not fit the Module."""


class OptimizerTypeError(TracegradError, TypeError):
    """Something an optimizer or a scheduler cannot work on."""


class OptimizerValueError(TracegradError, ValueError):
    """Parameters or hyper-parameters of an optimizer or a scheduler that make no sense."""


class SaveError(TracegradError, ValueError):
    """What tg.save cannot store, or a file that tg.load cannot read."""


class MissingPackageError(TracegradError, ImportError):
    """An optional package that is not installed."""


class VerificationError(TracegradError, AssertionError):
    """The verifier found a fault in a graph or program: a bug of tracegrad's own."""
