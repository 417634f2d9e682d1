"""Changes of one operation of a source file, in Python or C, that a test should notice."""

import ast
import re
from dataclasses import dataclass
from itertools import pairwise

# What an operation becomes. Comparisons are turned round: `<` for `<=` would rarely matter to floats.
OPERATORS = {
    "+": "-", "-": "+", "*": "/", "/": "*", "**": "*",
    "<": ">=", "<=": ">", ">": "<=", ">=": "<", "==": "!=", "!=": "==",
    "and": "or", "or": "and", "&&": "||", "||": "&&", "!": "",
}  # fmt: skip
FUNCTIONS = {"maximum": "minimum", "minimum": "maximum", "max": "min", "min": "max", "fabs": ""}
SYMBOLS = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.Pow: "**", ast.Lt: "<", ast.LtE: "<=",
    ast.Gt: ">", ast.GtE: ">=", ast.Eq: "==", ast.NotEq: "!=", ast.And: "and", ast.Or: "or",
}  # fmt: skip
# Comments, texts and indices of C; and lines whose operations are about places in memory.
NO_CODE = re.compile(r"/\*.*?\*/|\"(?:\\.|[^\"\n])*\"|\[[^][\n]*\]", re.DOTALL)
MEMORY = re.compile(
    r"\bfor \(|^\s*#|^\S|\bisize \w|\*\w* ?\w+ = |mem(?:cpy|set|move)|alloc|PyErr|PyArg|static |&b\b|SHUFFLE"
)
IN_C = re.compile(
    r"(?<= )(?:[-+*/]|<=?|>=?|==|!=|&&|\|\|)(?= )|!(?=\()|\bfabs\b|(?<![\w.])\d+\.\d+(?:e-?\d+)?(?![\w.])"
)


@dataclass(frozen=True)
class Mutation:
    """One change of a source.

    Attributes
    ----------
    start, stop : int
        Where, in characters.
    replacement : str
    """

    start: int
    stop: int
    replacement: str

    def apply(self, source):
        """Return the changed source."""
        return source[: self.start] + self.replacement + source[self.stop :]

    def describe(self, source):
        """Return the number of the line, and what it becomes."""
        first = source.rfind("\n", 0, self.start) + 1
        end = source.find("\n", self.stop)
        line = source[first:end]
        changed = line[: self.start - first] + self.replacement + line[self.stop - first :]
        return f"{source.count(chr(10), 0, first) + 1}: {line.strip()}  ->  {changed.strip()}"


def mutations(name, source):
    """Return all mutations of a source file."""
    found = _in_python(source) if name.endswith(".py") else _in_c(source)
    return sorted(found, key=lambda each: (each.start, each.replacement))


# --- C ------------------------------------------------------------------------------------------


def _in_c(source):
    """Yield the mutations of arithmetic, which is indented; not of loops, indices and pointers."""
    changes, position = OPERATORS | FUNCTIONS, 0
    for line in NO_CODE.sub(lambda text: re.sub(r"[^\n]", " ", text[0]), source).splitlines(keepends=True):
        if not MEMORY.search(line):
            for found in IN_C.finditer(line):
                text = found[0]
                changed = changes[text] if text in changes else _other(float(text), text)
                yield Mutation(position + found.start(), position + found.end(), changed)
        position += len(line)


def _other(value, text):
    """Return another number than the one a source has."""
    return "1.0" if value == 0 else f"(2 * {text})"


# --- Python -------------------------------------------------------------------------------------


def _in_python(source):
    """Yield the mutations of what functions compute; not of messages, indices, annotations and defaults."""
    lines = source.splitlines(keepends=True)
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line))

    def place(line, column):
        return starts[line - 1] + len(lines[line - 1].encode()[:column].decode())

    def extent(node):
        return place(node.lineno, node.col_offset), place(node.end_lineno, node.end_col_offset)

    def between(left, right, symbol):
        """Return the mutation of an operator between two nodes, which may be in brackets."""
        start, stop = extent(left)[1], extent(right)[0]
        where = start + source[start:stop].index(symbol)
        return Mutation(where, where + len(symbol), OPERATORS[symbol])

    for function in ast.walk(ast.parse(source)):
        if isinstance(function, ast.FunctionDef):
            for statement in function.body:
                for node in _computed(statement):
                    yield from _of_node(node, between, extent)


def _computed(node):
    """Yield the nodes of a statement that say what is computed; nested functions come by themselves."""
    if isinstance(node, ast.Raise | ast.Assert | ast.JoinedStr | ast.FunctionDef | ast.ClassDef | ast.Import):
        return
    yield node
    for name, child in ast.iter_fields(node):
        if name in ("slice", "annotation"):
            continue
        for each in child if isinstance(child, list) else [child]:
            if isinstance(each, ast.AST):
                yield from _computed(each)


def _of_node(node, between, extent):
    """Yield the mutations of one node."""
    match node:
        case ast.BinOp(op=op) if type(op) in SYMBOLS:
            yield between(node.left, node.right, SYMBOLS[type(op)])
            for operand in (node.left, node.right):
                if isinstance(operand, ast.Constant) and isinstance(operand.value, int | float):
                    yield Mutation(*extent(operand), _other(operand.value, operand.value))
        case ast.Compare():
            operands = [node.left, *node.comparators]
            for (left, right), op in zip(pairwise(operands), node.ops, strict=True):
                if type(op) in SYMBOLS:
                    yield between(left, right, SYMBOLS[type(op)])
        case ast.BoolOp():
            for left, right in pairwise(node.values):
                yield between(left, right, SYMBOLS[type(node.op)])
        case ast.UnaryOp(op=ast.Not()):
            start = extent(node)[0]
            yield Mutation(start, start + len("not "), "")
        case ast.UnaryOp(op=ast.USub(), operand=operand) if not isinstance(operand, ast.Constant):
            start = extent(node)[0]
            yield Mutation(start, start + 1, "+")
        case ast.Attribute(attr=name) | ast.Name(id=name) if name in FUNCTIONS:
            stop = extent(node)[1]
            yield Mutation(stop - len(name), stop, FUNCTIONS[name])
