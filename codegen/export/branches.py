"""`if` and `for` of a module that hang on values of a run, as operators of PyTorch that
have both branches, or the body, as graphs: tracing alone knows one way through."""

from __future__ import annotations

import ast
import inspect
import sys
import textwrap
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from copy import deepcopy
from types import FunctionType
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

from ...analysis.lazy import lazy

if TYPE_CHECKING:
    import torch
    from torch.nn.utils import stateless
    from torch.utils import _pytree as pytree

    cond: Any
    scan: Any
    while_loop: Any
else:
    torch, pytree = lazy("torch"), lazy("torch.utils._pytree")
    stateless = lazy("torch.nn.utils.stateless")
    cond = lazy("torch._higher_order_ops.cond")
    scan = lazy("torch._higher_order_ops.scan")
    while_loop = lazy("torch._higher_order_ops.while_loop")

_CHOOSE, _REPEAT, _EACH = "_fairhand_choose", "_fairhand_repeat", "_fairhand_each"
_GO_ON, _STACKED, _PICKED = "_fairhand_go_on", "_fairhand_stacked", "_fairhand_picked"
_RESULT, _LIMIT = "_fairhand_result", "_fairhand_limit"
_LEAVING = ast.Return | ast.Break | ast.Continue | ast.Yield | ast.YieldFrom
_INNER = ast.FunctionDef | ast.Lambda | ast.ClassDef
_COMPREHENSIONS = ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp
_SCOPES = _INNER | _COMPREHENSIONS

Block = list[ast.stmt]
Run = Callable[..., Any]
Made = tuple[Any, ...]
Scope = dict[str, Any]
Names = Sequence[str]


@contextmanager
def as_graphs(module: torch.nn.Module) -> Iterator[None]:
    """In here, the functions of the module's own page choose between branches, and
    repeat a body, by operators where it is a tensor that says which or how often."""
    page = sys.modules[type(module).__module__]
    kinds = [kind for kind in vars(page).values() if isinstance(kind, type)]
    with ExitStack() as entered:
        for owner in (page, *kinds):
            for name, function in [*vars(owner).items()]:
                is_own = isinstance(function, FunctionType)
                if is_own and function.__module__ == page.__name__:
                    written = _rewritten(function)
                    entered.enter_context(patch.object(owner, name, written))
        yield


def _rewritten(function: FunctionType) -> FunctionType:
    """The same with its branches and bodies as functions; itself where it has none,
    or where there is no source of it."""
    try:
        lines, first = inspect.getsourcelines(function)
        tree = ast.parse(textwrap.dedent("".join(lines)))
    except (OSError, TypeError, SyntaxError):
        return function
    written = tree.body[0]
    if not isinstance(written, ast.FunctionDef) or function.__closure__:
        return function
    ast.increment_lineno(tree, first - 1)
    written.body = _leaving_last(written.body)
    writer = _Writer(written)
    written.body = writer.block(written.body, set())
    if not writer.count:
        return function
    written.decorator_list = []
    names = function.__globals__
    names |= {
        _CHOOSE: choose,
        _REPEAT: repeat,
        _EACH: each,
        _GO_ON: go_on,
        _STACKED: stacked,
        _PICKED: picked,
    }
    made: dict[str, Any] = {}
    code = compile(ast.fix_missing_locations(tree), inspect.getfile(function), "exec")
    exec(code, names, made)
    result: FunctionType = made[written.name]
    result.__kwdefaults__ = function.__kwdefaults__
    result.__defaults__ = function.__defaults__
    return result


def _leaving_last(block: Block) -> Block:
    """What follows a branch that returns, as the other branch, so that a function
    returns at its end alone."""
    for i, statement in enumerate(block):
        if isinstance(statement, ast.If) and _leaves(statement):
            sides = [
                _leaving_last(
                    side if _ends(side) else [*side, *deepcopy(block[i + 1 :])]
                )
                for side in (statement.body, statement.orelse)
            ]
            if not all(map(_ends, sides)):
                return block
            for side in sides:
                value = side[-1].value or ast.Constant(None)  # type: ignore[attr-defined]
                side[-1] = _assigned(_RESULT, value)
            chosen = ast.If(statement.test, *sides)
            result = ast.Return(ast.Name(_RESULT, ast.Load()))
            return [
                *block[:i],
                *(ast.copy_location(s, statement) for s in (chosen, result)),
            ]
    return block


def _leaves(statement: ast.AST, kinds: Any = ast.Return) -> bool:
    """Whether a statement may leave its block in one of these ways."""
    if isinstance(statement, kinds):
        return True
    inner = ast.iter_child_nodes(statement)
    return any(_leaves(n, kinds) for n in inner if not isinstance(n, _INNER))


def _ends(block: Block) -> bool:
    return bool(block) and isinstance(block[-1], ast.Return)


class _Writer(ast.NodeTransformer):
    """Writes the blocks of a function anew."""

    def __init__(self, function: ast.FunctionDef) -> None:
        every = ast.walk(function.args)
        self._local = {node.arg for node in every if isinstance(node, ast.arg)}
        self._local |= _changed(function.body)
        self._before: Block = []  # what chooses values for a statement
        self.count = 0  # of the functions that were made

    def visit(self, node: ast.AST) -> Any:
        """The node; what has names of its own stays."""
        return node if isinstance(node, _SCOPES) else super().visit(node)

    def visit_Call(self, node: ast.Call) -> ast.expr:
        """A call; of what stacks a list, one that may have the stack already."""
        self.generic_visit(node)
        if ast.unparse(node.func) == "torch.stack":
            node.args[:0] = [node.func]
            node.func = ast.Name(_STACKED, ast.Load())
        return node

    def visit_Subscript(self, node: ast.Subscript) -> ast.expr:
        """A part; of what is picked by a name, one that a tensor may pick."""
        self.generic_visit(node)
        if not isinstance(node.slice, ast.Name) or not isinstance(node.ctx, ast.Load):
            return node
        self.count += 1
        return ast.Call(ast.Name(_PICKED, ast.Load()), [node.value, node.slice], [])

    def visit_IfExp(self, node: ast.IfExp) -> ast.expr:
        """The name of a value that a statement in front of this one chooses."""
        name = f"_fairhand_value_{len(self._local)}"
        self._local.add(name)
        body, other = (_assigned(name, side) for side in (node.body, node.orelse))
        chosen = ast.If(node.test, [body], [other])
        self._before.append(ast.copy_location(chosen, node))
        return ast.Name(name, ast.Load())

    def block(self, block: Block, after: set[str]) -> Block:
        """The statements, with the names that what follows them may read."""
        made: Block = []
        for i, statement in enumerate(block):
            for name, value in ast.iter_fields(statement):
                if isinstance(value, ast.expr) and not isinstance(statement, ast.While):
                    setattr(statement, name, self.visit(value))
            read = _read(block[i + 1 :]) | after
            before, self._before = self._before, []
            for j, choice in enumerate(before):
                made += self.block([choice], _read([*before[j:], statement]) | read)
            new = self._statement(statement, read)
            made += [ast.copy_location(each, statement) for each in new]
        return made

    def _statement(self, statement: ast.stmt, after: set[str]) -> Block:
        match statement:
            case ast.With():
                statement.body = self.block(statement.body, after)
            case ast.If():
                sides = statement.body, statement.orelse
                statement.body, statement.orelse = (self.block(x, after) for x in sides)
            case ast.For() | ast.While():
                after = after | _read([statement])
                statement.body = self.block(statement.body, after)
        if _leaves(statement, _LEAVING):
            return [statement]
        match statement:
            case ast.If(ast.UnaryOp(ast.Not(), test), body, other):
                return self._called(_CHOOSE, [test], [other, body], after)
            case ast.If(test, body, other):
                return self._called(_CHOOSE, [test], [body, other], after)
            case ast.While(test, body, []):
                return self._called(_GO_ON, [], [[ast.Return(test)], body], after)
            case ast.For(ast.Name(i), ast.Call(ast.Name("range"), [times]), body, []):
                whole = isinstance(times, ast.Call) and ast.unparse(times.func) == "int"
                asked = times.args[0] if whole else times  # type: ignore[attr-defined]
                return self._called(_REPEAT, [asked], [body], after - {i}, [i])
            case ast.For(ast.Name(x), ast.Name() as rows, body, []):
                return self._called(_EACH, [rows], [body], after - {x}, [x])
        return [statement]

    def _called(
        self,
        how: str,
        asked: list[ast.expr],
        blocks: Sequence[Block],
        after: set[str],
        first: Sequence[str] = (),
    ) -> Block:
        """Functions of blocks, and the call that takes what they change from them."""
        every = [statement for block in blocks for statement in block]
        changed = sorted(_changed(every) & after & self._local)
        read = {*changed}.union(*map(_read, blocks))
        given = sorted(read & self._local - {*first})
        names, made = list[str](), Block()
        for block in blocks:
            self.count += 1
            names.append(f"_fairhand_{self.count}")
            header = ", ".join([*first, *(f"{name}=None" for name in given)])
            function = ast.parse(f"def {names[-1]}({header}): pass").body[0]
            assert isinstance(function, ast.FunctionDef)
            kept = ast.Tuple([ast.Name(n, ast.Load()) for n in changed], ast.Load())
            function.body = block if _ends(block) else [*block, ast.Return(kept)]
            made.append(function)
        text = f"{how}({', '.join(names)}, {changed}, locals())"
        call = ast.parse(text, mode="eval").body
        assert isinstance(call, ast.Call)
        call.args[:0] = asked
        taken = ast.Tuple([ast.Name(n, ast.Store()) for n in changed], ast.Store())
        made.append(ast.Assign([taken], call) if changed else ast.Expr(call))
        return made


def _assigned(name: str, value: ast.expr) -> ast.Assign:
    return ast.Assign([ast.Name(name, ast.Store())], value)


def _changed(block: Iterable[ast.stmt]) -> set[str]:
    """The names that statements give a value, or a part of it."""
    found: set[str] = set()
    for node in (node for statement in block for node in ast.walk(statement)):
        match node:
            case ast.Name(name, ast.Store()) | ast.FunctionDef(name):
                found.add(name)
            case ast.Subscript(value, _, ast.Store()) | ast.Attribute(
                value, _, ast.Store()
            ):
                found |= _read([value])
            case ast.Expr(ast.Call(ast.Attribute(value))):
                found |= _read([value])
    return found


def _read(block: Iterable[ast.AST]) -> set[str]:
    """The names that statements may read before these give them a value."""
    found, given = set[str](), set[str]()
    for statement in block:
        every = [node for node in ast.walk(statement) if isinstance(node, ast.Name)]
        loaded = {node.id for node in every if isinstance(node.ctx, ast.Load)}
        if isinstance(statement, ast.AugAssign):
            loaded |= {node.id for node in every}
        found |= loaded - given
        if isinstance(statement, ast.Assign):
            given |= {node.id for node in every if isinstance(node.ctx, ast.Store)}
    return found


def choose(asked: Any, then: Run, other: Run, changed: Names, scope: Scope) -> Made:
    """What one of two functions makes of what `changed` names, from what it takes of
    `scope`: by an operator where a tensor says which."""
    given = _taken(then, scope)
    if not isinstance(asked, torch.Tensor):
        made: Made = (then if asked else other)(**given)
        return made
    opened = _Opened({}, given)
    asked = (asked if asked.dtype == torch.bool else asked != 0).reshape(())
    sides = opened.closed(then), opened.closed(other)
    return opened.result(cond.cond_op(asked, *sides, opened.operands))


def repeat(times: Any, body: Run, changed: Names, scope: Scope) -> Made:
    """The same of a function of a number, which is called as often as `times` says.
    Raises TypeError for lists that may stay empty."""
    number = next(iter(inspect.signature(body).parameters))
    given = _taken(body, scope)
    is_size = isinstance(times, torch.SymInt)
    if not is_size and not isinstance(times, torch.Tensor):
        return _in_turn(range(times), body, changed, given)
    grows = [name for name in changed if given.get(name) == []]
    if grows and isinstance(times, torch.Tensor):  # which ONNX Runtime never does
        raise TypeError(f"{grows[0]} grows as often as a tensor says, maybe never")
    if grows:
        return _scanned(torch.arange(times), body, changed, given)
    if is_size:
        times = torch.scalar_tensor(times, dtype=torch.int64)
    given |= {number: torch.zeros((), dtype=times.dtype), _LIMIT: times.reshape(())}

    def below(**now: Any) -> Any:
        return now[number] < now[_LIMIT]

    def step(**now: Any) -> Made:
        del now[_LIMIT]
        return now[number] + 1, *body(**now)

    return _looped(below, step, [number, *changed], given)[1:]


def each(rows: Any, body: Run, changed: Names, scope: Scope) -> Made:
    """The same of a function of a row, which is called with one after the other."""
    given = _taken(body, scope)
    is_open = isinstance(rows, torch.Tensor) and isinstance(rows.shape[0], torch.SymInt)
    return (_scanned if is_open else _in_turn)(rows, body, changed, given)


def _in_turn(rows: Iterable[Any], body: Run, changed: Names, given: Scope) -> Made:
    for row in rows:
        given |= zip(changed, body(row, **given), strict=True)
    return tuple(given.get(name) for name in changed)


def _scanned(rows: Any, body: Run, changed: Names, given: Scope) -> Made:
    """Rounds that each add one to the lists that they begin with nothing in."""
    row_name = next(iter(inspect.signature(body).parameters))
    lists = [name for name in changed if given.get(name) == []]
    kept = [name for name in changed if name not in lists]
    first = {name: given.pop(name) for name in kept}
    rest = {name: value for name, value in given.items() if name not in lists}
    opened = _Opened(first, {row_name: rows.new_empty(rows.shape[1:])}, rest)

    def step(**now: Any) -> Made:
        made = body(**now, **{name: [] for name in lists})
        named = dict(zip(changed, made, strict=True))
        ones = [one for name in lists for one in named[name]]
        if len(ones) != len(lists):
            raise TypeError(f"rounds add to {', '.join(lists)} more or less than one")
        return *(named[name] for name in kept), *ones

    row, count = opened.operands, opened.first
    made = scan.scan_op(opened.closed(step), row[:count], [rows], row[count + 1 :])
    found = dict(zip([*kept, *lists], opened.result(made), strict=True))
    return tuple(_Stack(found[n]) if n in lists else found[n] for n in changed)


class _Stack:
    """What stands for a list with one tensor for each round: all in one."""

    def __init__(self, tensor: Any) -> None:
        self.tensor = tensor

    def __getitem__(self, place: int) -> Any:
        return self.tensor[place]


def stacked(stack: Run, parts: Any, dim: int = 0) -> Any:
    """torch.stack, which `stack` is, of tensors or of what stands for them."""
    if isinstance(parts, _Stack):
        return parts.tensor.movedim(0, dim) if dim else parts.tensor
    return stack(parts, dim)


def picked(parts: Any, place: Any) -> Any:
    """parts[place]; a row of a tensor by an operator where a tensor says which."""
    both = isinstance(parts, torch.Tensor) and isinstance(place, torch.Tensor)
    if not both or place.dim() or place.dtype not in (torch.int32, torch.int64):
        return parts[place]
    return parts.index_select(0, place.reshape(1)).squeeze(0)


def go_on(going: Run, body: Run, changed: Names, scope: Scope) -> Made:
    """The same of a function that is called as long as another one says."""
    given = _taken(body, scope)
    if isinstance(going(**given), torch.Tensor):
        return _looped(going, body, changed, given)
    while going(**given):
        given |= zip(changed, body(**given), strict=True)
    return tuple(given.get(name) for name in changed)


def _taken(function: Run, scope: Scope) -> Scope:
    takes = inspect.signature(function).parameters
    return {name: scope[name] for name in takes if name in scope}


def _looped(going: Run, body: Run, changed: Names, given: Scope) -> Made:
    opened = _Opened({name: given.pop(name) for name in changed}, given)

    def goes(*row: Any) -> Any:
        return opened.call(going, row).reshape(())

    step, count = opened.closed(body), opened.first
    row = opened.operands[:count], opened.operands[count:]
    made = while_loop.while_loop_op(goes, step, *row)
    return opened.result(made)


class _Opened:
    """Values as a row of tensors, which functions of such a row put together again:
    those of modules as well, so that no graph reads what another one made."""

    def __init__(self, *groups: Scope) -> None:
        every = {name: value for group in groups for name, value in group.items()}
        kind = torch.nn.Module
        self._modules = {
            n: value for n, value in every.items() if isinstance(value, kind)
        }
        plain = [
            {n: x for n, x in group.items() if n not in self._modules}
            for group in groups
        ]
        states = [
            {**dict(part.named_parameters()), **dict(part.named_buffers())}
            for part in self._modules.values()
        ]
        self._row, self._spec = pytree.tree_flatten([plain, states])
        self._places = [
            i for i, x in enumerate(self._row) if isinstance(x, torch.Tensor)
        ]
        self._made: Any = None
        # No operand is another one, or a part of it.
        values = len(pytree.tree_leaves(plain))
        taken = [(i < values, self._row[i]) for i in self._places]
        self.operands = tuple(x.clone() if apart else x for apart, x in taken)
        leaves = pytree.tree_leaves(plain[0])
        self.first = sum(isinstance(x, torch.Tensor) for x in leaves)  # of a group

    def call(self, run: Run, operands: Sequence[Any]) -> Any:
        """What a function makes of the values that a row of tensors stands for."""
        row = [*self._row]
        for place, value in zip(self._places, operands, strict=True):
            row[place] = value
        groups, states = pytree.tree_unflatten(row, self._spec)
        given = {name: value for group in groups for name, value in group.items()}
        with ExitStack() as entered:
            for part, state in zip(self._modules.values(), states, strict=True):
                entered.enter_context(stateless._reparametrize_module(part, state))
            return run(**given, **self._modules)

    def closed(self, run: Run) -> Callable[..., list[Any]]:
        """The function as one of such a row, that makes such a row. Raises TypeError
        for what it makes beside tensors, or not as one before."""

        def called(*operands: Any) -> list[Any]:
            made, spec = pytree.tree_flatten(self.call(run, operands))
            if self._made not in (None, spec):
                raise TypeError(f"one branch makes {self._made}, the other {spec}")
            self._made = spec
            if others := [x for x in made if not isinstance(x, torch.Tensor)]:
                raise TypeError(f"a branch or a loop makes {others[0]!r}, no tensor")
            # A graph gives none of its inputs back, no tensor twice, and all in the
            # same strides, whichever side they are from.
            row, taken = list[Any](), {id(x) for x in operands}
            for x in made:
                again = x.clone(memory_format=torch.contiguous_format)
                row.append(again if id(x) in taken else x.contiguous())
                taken.add(id(x))
            return row

        return called

    def result(self, row: Iterable[Any]) -> Made:
        """What functions that were closed made, from the operator's results."""
        made: Made = pytree.tree_unflatten([*row], self._made)
        return made
