# SPDX-License-Identifier: Apache-2.0
"""Arrays as tensors of the library, without a copy.

One idea: a tensor is an address, a count and a dtype, and an object that keeps the memory alive. Whatever has the buffer
protocol or DLPack becomes a NumPy array of the same memory first."""

from typing import Any

import numpy

from tryst._abi import ffi, lib, text

_TENSOR, _BYTES = ffi.typeof("tryst_tensor *"), ffi.typeof("char[]")
# NumPy's kind and bytes of an element; NumPy itself has no bfloat16, which is "w2" here.
_CODES = {"u1": lib.TRYST_DTYPE_U8, "i1": lib.TRYST_DTYPE_I8, "u2": lib.TRYST_DTYPE_U16, "i2": lib.TRYST_DTYPE_I16,
          "u4": lib.TRYST_DTYPE_U32, "i4": lib.TRYST_DTYPE_I32, "u8": lib.TRYST_DTYPE_U64, "i8": lib.TRYST_DTYPE_I64,
          "f2": lib.TRYST_DTYPE_F16, "f4": lib.TRYST_DTYPE_F32, "f8": lib.TRYST_DTYPE_F64, "w2": lib.TRYST_DTYPE_BF16}
_FORMS = {code: form for form, code in _CODES.items()}
_NAMES = {text(lib.tryst_dtype_name(code)): code for code in _FORMS}
_templates: Any = {}  # by numpy.dtype: a tensor without memory


def dtype_code(dtype: Any) -> int:
    """The number of a dtype: of the library's name of it ("f32", "bf16"), or of what numpy.dtype takes."""
    if isinstance(dtype, str) and dtype in _NAMES:
        return _NAMES[dtype]
    dtype = numpy.dtype(dtype)
    kind = {"bfloat16": "w", "bool": "u"}.get(dtype.name, dtype.kind)
    code = _CODES.get(f"{kind}{dtype.itemsize}") if dtype.isnative else None
    if code is None:
        raise TypeError(f"no tensor has the dtype {dtype} ({', '.join(_NAMES)}, in the machine's byte order)")
    return code


def dtype_numpy(code: int) -> Any:
    """NumPy's dtype of a number; the bits of bf16, unless ml_dtypes has taught NumPy bfloat16."""
    if _FORMS[code] != "w2":
        return numpy.dtype(_FORMS[code])
    try:
        return numpy.dtype("bfloat16")
    except TypeError:
        return numpy.dtype("u2")


def _template(dtype: Any) -> Any:
    fields = {"struct_size": ffi.sizeof("tryst_tensor"), "dtype": dtype_code(dtype)}
    return _templates.setdefault(dtype, ffi.new(_TENSOR, fields)[0])


def _array_of(value: Any) -> Any:
    """A NumPy array of the memory of another object."""
    if isinstance(value, numpy.ndarray):
        return value.view(numpy.ndarray)
    try:
        return numpy.asarray(memoryview(value))
    except TypeError:
        if hasattr(value, "__dlpack__"):
            return _writeable(numpy.from_dlpack(value))
        raise TypeError(f"not a tensor: {type(value).__name__} has neither a buffer nor __dlpack__") from None


def _writeable(array: Any) -> Any:
    """Before DLPack 1.0 no array says whether it may be written, and NumPy before 2.1 makes each read-only."""
    if array.flags.writeable or numpy.lib.NumpyVersion(numpy.__version__) >= "2.1.0" or not array.flags.c_contiguous:
        return array
    memory = ffi.gc(ffi.cast("char *", array.ctypes.data), lambda _, keep=array: None)
    return numpy.frombuffer(ffi.buffer(memory, array.nbytes), array.dtype)


def _plain(array: Any, is_output: bool) -> Any:
    """Refuse an array that is not one run of elements, or read-only. Else it has a dtype without a buffer: its bits."""
    if not array.flags.c_contiguous:
        raise ValueError("cannot use an array that is not contiguous: numpy.ascontiguousarray makes one")
    if is_output and not array.flags.writeable:
        raise ValueError("cannot write to an array that is read-only")
    return array.view(numpy.uint16)


def tensor_of(value: Any, is_output: bool) -> tuple[Any, Any]:
    """Return a tryst_tensor of the memory of `value`, and what keeps the memory alive."""
    if value.__class__ is not numpy.ndarray:
        if value.__class__ is Tensor:
            return value._tensor, value
        value = _array_of(value)
    tensor = ffi.new(_TENSOR, _templates.get(value.dtype) or _template(value.dtype))
    try:
        memory = ffi.from_buffer(_BYTES, value, is_output)
    except (ValueError, BufferError):
        memory = ffi.from_buffer(_BYTES, _plain(value, is_output), is_output)
    tensor.data = memory
    tensor.count = value.size
    return tensor, memory


class Tensor:
    """An array that is looked at once, for loops that use it again and again. `dtype`: what its bits are ("bf16" of an
    array of uint16)."""

    __slots__ = ("array", "_keep", "_tensor")

    def __init__(self, array: Any, dtype: Any = None) -> None:
        self._tensor, self._keep = tensor_of(array, True)
        self.array = array
        if dtype is not None:
            code = dtype_code(dtype)
            if lib.tryst_dtype_bytes(code) != lib.tryst_dtype_bytes(self._tensor.dtype):
                raise TypeError(f"the elements of the array do not have the size of {dtype}")
            self._tensor.dtype = code


class Room:
    """What a receive without a tensor gets: memory, once the shape is known."""

    __slots__ = ("memory",)
    memory: Any

    def take(self, op: Any) -> Any:
        """Return the array that `op`, which has ended well, has received."""
        tensor = ffi.new(_TENSOR, {"struct_size": ffi.sizeof("tryst_tensor")})
        lib.tryst_op_tensor(op, tensor)
        return self.memory.view(dtype_numpy(tensor.dtype))


@ffi.callback("tryst_status(void *, tryst_tensor *)", error=lib.TRYST_E_NOMEM)
def room_alloc(arg: Any, tensor: Any) -> int:
    """Allocate for a receive; `arg` is the ffi.new_handle of its Room. Runs in the thread that makes progress."""
    room = ffi.from_handle(arg)
    room.memory = numpy.empty(tensor.count * lib.tryst_dtype_bytes(tensor.dtype), numpy.uint8)
    tensor.data = ffi.from_buffer(_BYTES, room.memory)
    return int(lib.TRYST_OK)
