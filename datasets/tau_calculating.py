"""The calculator tool: arithmetic on numbers, nothing else."""

import ast
import operator
from collections.abc import Callable

from cachemend.datasets.tau_tool import ToolError

_BINARY: dict[type[ast.operator], Callable[[float, float], float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}
_LONGEST = 1000


def calculate_text(expression: str) -> str:
    """The value of an expression of numbers, ``+ - * /`` and parentheses, rounded to the cent.

    Raises:
        ToolError: anything else in the expression, or a division by zero.
    """
    try:
        if len(expression) > _LONGEST:
            raise ToolError("the expression is too long")
        return str(round(_value(ast.parse(expression.strip(), mode="eval").body), 2))
    except (SyntaxError, ZeroDivisionError, RecursionError, OverflowError) as error:
        raise ToolError(f"the expression cannot be calculated: {error}") from error


def _value(node: ast.expr) -> float:
    match node:
        case ast.Constant(value=int() | float() as number) if not isinstance(number, bool):
            return number
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _BINARY:
            return _BINARY[type(op)](_value(left), _value(right))
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_value(operand)
        case _:
            raise ToolError("the expression may hold numbers, + - * / and parentheses only")
