"""Statements as text that C and C++ have in common."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence

from infuse.lowering.expressions import Expression
from infuse.lowering.statements import (
    Arrays,
    Assign,
    Constant,
    CopyElements,
    If,
    KernelCall,
    Pointers,
    Repeat,
    Require,
    Result,
    Return,
    Room,
    RunBody,
    Scope,
    Statement,
    Struct,
    Text,
    Variable,
)
from infuse.targets.text.expressions import ExpressionText


class StatementText(ExpressionText):
    """Writes statements."""

    @abstractmethod
    def own_lines(self, statement: Statement) -> Sequence[str]:
        """The lines of a statement that the languages say differently."""

    @abstractmethod
    def copy_head(self, bytes: int) -> str:
        """What a call of the kernel that copies elements of so many bytes begins with."""

    def lines(self, statement: Statement) -> Sequence[str]:
        """The lines of a statement."""
        match statement:
            case Text(text):
                return [text]
            case If() | Repeat() | Scope():
                return self._block(statement)
            case Arrays(lists, constant):
                each = (f"{name}[] = {{{self._all(elements)}}}" for name, elements in lists)
                return [f"{'const ' if constant else ''}isize {', '.join(each)};"]
            case Room(lengths, zeros):
                end = " = {0}" if zeros else ""
                return [f"isize {', '.join(f'{name}[{count}]{end}' for name, count in lengths)};"]
            case Variable(type, values):
                each = (f"{n} = {self.text(value)}" if value else n for n, value in values)
                return [f"{type} {', '.join(each)};"]
            case Constant(type, name, value):
                return [f"const {type} {name} = {self.text(value)};"]
            case Struct(type, name, fields):
                return [f"const {type} {name} = {{{self.fields(fields)}}};"]
            case Pointers(name, elements):
                listed = ", ".join((*map(self.text, elements), self.nothing))
                return [f"const void* {name}[] = {{{listed}}};"]
            case Assign(pairs):
                each = (f"{self.text(place)} = {self.text(value)}" for place, value in pairs)
                return [f"{', '.join(each)};"]
        return self._step(statement)

    def _step(self, statement: Statement) -> Sequence[str]:
        """The lines of what calls, and of what ends a function."""
        match statement:
            case KernelCall():
                return self._call(statement)
            case CopyElements():
                return self._copy(statement)
            case RunBody(number):
                run = f"run_{number}(m, in, {self.nothing})"
                return [f"{{ const int failed = {run}; if (failed) return failed; }}"]
            case Require(condition, failure):
                return [f"if (!({self.text(condition)})) return {failure};"]
            case Return(condition, failure):
                return [f"if ({self.text(condition)}) return{f' {failure}' if failure else ''};"]
            case Result(value):
                return [f"return {self.text(value)};"]
        return self.own_lines(statement)

    def indented(self, statements: Sequence[Statement]) -> list[str]:
        """The lines of inner statements."""
        return [f"  {line}" for statement in statements for line in self.lines(statement)]

    def _all(self, expressions: Sequence[Expression]) -> str:
        return ", ".join(map(self.text, expressions))

    def _call(self, s: KernelCall) -> Sequence[str]:
        arguments = self._all((*(("c",) if s.context else ()), *s.arguments))
        call = f"{self.instance(s.kernel, s.template)}({arguments})"
        if s.result:
            return [f"const isize {s.result} = {call};"]
        return [f"if (!{call}) return {s.failure};" if s.failure else f"{call};"]

    def _copy(self, s: CopyElements) -> Sequence[str]:
        shape, read, write = (
            self._all(names) or empty
            for names, empty in ((s.shape, "1L"), (s.read_strides, "0L"), (s.write_strides, "0L"))
        )
        operands = f"{max(1, s.rank)}, shape, from, to, {s.source}, {s.target}"
        return [
            f"const isize shape[] = {{{shape}}}, from[] = {{{read}}}, to[] = {{{write}}};",
            f"{self.copy_head(s.bytes)}, {operands});",
        ]

    def _block(self, statement: If | Repeat | Scope) -> Sequence[str]:
        match statement:
            case Scope(body):
                return ["{", *self.indented(body), "}"]
            case If(condition, then, otherwise):
                head = [f"if ({self.text(condition)}) {{", *self.indented(then)]
                other = ["} else {", *self.indented(otherwise)] if otherwise else []
                return [*head, *other, "}"]
        start = "" if statement.first is None else f"{statement.type} i = "
        start += "" if statement.first is None else self.text(statement.first)
        step = f"{statement.also} = ++i" if statement.also else "++i"
        head = [f"for ({start}; {self.text(statement.condition)}; {step}) {{"]
        return [*head, *self.indented(statement.body), "}"]
