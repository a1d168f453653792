"""Python's operators on Variables, and the methods that are no plain op functions."""

from typing import TYPE_CHECKING, Any

from .method import provided

if TYPE_CHECKING:  # this class is a base of it
    from .variable import Operand, Variable


class Operators:
    """The operators of Variables, by functions that the packages above this one `provide`."""

    def __array_ufunc__(self, function: Any, method: str, *inputs: Any, **options: Any) -> Any:
        return provided["ufunc"](function, method, inputs, options)

    def __array_function__(self, function: Any, types: Any, inputs: Any, options: Any) -> Any:
        return provided["array_function"](function, inputs, options)

    def __dlpack__(self: Any, **options: Any) -> Any:
        return self.numpy().__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return 1, 0  # a CPU: values are fetched from other devices

    def __add__(self, other: "Operand") -> "Variable":
        return provided["add"](self, other)

    def __radd__(self, other: "Operand") -> "Variable":
        return provided["add"](other, self)

    def __sub__(self, other: "Operand") -> "Variable":
        return provided["sub"](self, other)

    def __rsub__(self, other: "Operand") -> "Variable":
        return provided["sub"](other, self)

    def __mul__(self, other: "Operand") -> "Variable":
        return provided["mul"](self, other)

    def __rmul__(self, other: "Operand") -> "Variable":
        return provided["mul"](other, self)

    def __truediv__(self, other: "Operand") -> "Variable":
        return provided["div"](self, other)

    def __rtruediv__(self, other: "Operand") -> "Variable":
        return provided["div"](other, self)

    def __pow__(self, other: "Operand") -> "Variable":
        return provided["pow"](self, other)

    def __rpow__(self, other: "Operand") -> "Variable":
        return provided["pow"](other, self)

    def __matmul__(self, other: "Operand") -> "Variable":
        return provided["matmul"](self, other)

    def __rmatmul__(self, other: "Operand") -> "Variable":
        return provided["matmul"](other, self)

    def __lt__(self, other: "Operand") -> "Variable":
        return provided["less_than"](self, other)

    def __le__(self, other: "Operand") -> "Variable":
        return provided["less_equal"](self, other)

    def __gt__(self, other: "Operand") -> "Variable":
        return provided["greater_than"](self, other)

    def __ge__(self, other: "Operand") -> "Variable":
        return provided["greater_equal"](self, other)

    def __mod__(self, other: "Operand") -> "Variable":
        return provided["mod"](self, other)

    def __rmod__(self, other: "Operand") -> "Variable":
        return provided["mod"](other, self)

    def __floordiv__(self, other: "Operand") -> "Variable":
        return provided["floor_div"](self, other)

    def __rfloordiv__(self, other: "Operand") -> "Variable":
        return provided["floor_div"](other, self)

    def __divmod__(self, other: "Operand") -> tuple["Variable", "Variable"]:
        return self // other, self % other

    def __rdivmod__(self, other: "Operand") -> tuple["Variable", "Variable"]:
        return provided["floor_div"](other, self), provided["mod"](other, self)

    def __and__(self, other: "Operand") -> "Variable":
        return provided["bitwise_and"](self, other)

    def __or__(self, other: "Operand") -> "Variable":
        return provided["bitwise_or"](self, other)

    def __xor__(self, other: "Operand") -> "Variable":
        return provided["bitwise_xor"](self, other)

    __rand__, __ror__, __rxor__ = __and__, __or__, __xor__

    def __invert__(self) -> "Variable":
        return provided["bitwise_not"](self)

    def __neg__(self) -> "Variable":
        return provided["neg"](self)

    def __abs__(self) -> "Variable":
        return provided["abs"](self)

    def __round__(self, digits: int = 0) -> "Variable":
        factor = 10.0**digits
        return provided["round"](self * factor) / factor if digits else provided["round"](self)

    def __getitem__(self, key: Any) -> "Variable":
        return provided["get_item"](self, key)

    @property
    def T(self) -> "Variable":
        """The axes in reverse order."""
        return provided["transpose"](self)

    @property
    def mT(self) -> "Variable":
        """The last two axes exchanged: each matrix of a stack transposed."""
        return provided["matrix_transpose"](self)

    def reshape(self, *shape: Any) -> "Variable":
        """Return `pd.reshape` of it; the sizes are one argument or several."""
        return provided["reshape"](self, shape[0] if len(shape) == 1 else list(shape))

    def transpose(self, *order: Any) -> "Variable":
        """Return `pd.transpose` of it; the axes are one argument, several or none.

        Raises:
            TypeError: two axes are given one by one and change nothing, as only an exchange would.
        """
        single = len(order) == 1 and not isinstance(order[0], int)
        if order in ((0, 1), (-2, -1)):
            raise TypeError(
                "transpose: takes the new order of all axes, and "
                f"{order} changes nothing; x.T and x.mT exchange two, or pd.swap_axes(x, a, b)"
            )
        return provided["transpose"](self, (order[0] if single else list(order)) or None)
