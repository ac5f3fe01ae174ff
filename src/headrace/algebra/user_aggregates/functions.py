"""The functions that a body may call on values; what each gives, as program text."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sqlglot import exp

from headrace.algebra.user_aggregates.faults import Fault
from headrace.algebra.user_aggregates.values import NUMBERS, WORDS, Code, Kind, Writer, either


def converted(code: Code, kind: Kind, node: exp.Expr | None = None) -> Code:
    """A value as one of another kind, where that says the same."""
    if code.kind == kind:
        return code
    if code.kind == "null":
        return Code({"float": "0.0", "text": "''", "decimal": "_ZERO", "bool": "False"}.get(kind, "0"), kind, "True")
    if kind == "float" and code.kind in NUMBERS:
        return Code(f"float({code.value})", kind, code.null)
    if kind == "decimal" and code.kind == "int":
        return Code(f"_decimal({code.value})", kind, code.null)
    if kind == "span" and code.kind in ("int", "float"):  # a number beside times is seconds
        return Code(f"_seconds({code.value})", kind, code.null)
    if kind == "time" and code.kind in ("int", "float"):
        return Code(f"_seconds({code.value})", kind, code.null)
    if kind == "time" and code.kind == "date":
        return Code(f"({code.value} * 86400000000)", kind, code.null)
    raise Fault("WRONG_TYPE", f"{WORDS[code.kind]} stands where {WORDS[kind]} is needed", node)


def common_kind(codes: Sequence[Code], node: exp.Expr | None = None) -> Kind:
    """The kind that values of several kinds have in common."""
    kinds = list(dict.fromkeys(code.kind for code in codes if code.kind != "null"))
    if not kinds:
        return "null"
    if len(kinds) == 1:
        return kinds[0]
    if all(kind in NUMBERS for kind in kinds):
        return "float" if "float" in kinds else "decimal"
    timely: Kind
    for timely in ("time", "span"):
        if timely in kinds and all(kind in (timely, "int", "float", "date") for kind in kinds):
            return timely
    raise Fault("WRONG_TYPE", f"{' and '.join(WORDS[kind] for kind in kinds)} do not go together", node)


def _number(code: Code, node: exp.Expr) -> Code:
    if code.kind not in NUMBERS and code.kind != "null":
        raise Fault("WRONG_TYPE", f"{WORDS[code.kind]} stands where a number is needed", node)
    return code


def _real(name: str, needs: str = "") -> Callable[[Writer, list[Code], exp.Expr], Code]:
    """A function of one real number; NULL where `needs` does not hold."""

    def made(writer: Writer, codes: list[Code], node: exp.Expr) -> Code:
        value = writer.kept(converted(_number(codes[0], node), "float", node))
        null = either(value.null, f"not ({value.value} {needs})") if needs else value.null
        return Code(f"{name}({value.value})", "float", null)

    return made


def _absolute(writer: Writer, codes: list[Code], node: exp.Expr) -> Code:
    value = codes[0] if codes[0].kind == "span" else _number(codes[0], node)
    return Code(f"abs({writer.kept(value).value})", value.kind, value.null)


def _whole(name: str) -> Callable[[Writer, list[Code], exp.Expr], Code]:
    def made(_writer: Writer, codes: list[Code], node: exp.Expr) -> Code:
        value = _number(codes[0], node)
        return value if value.kind == "int" else Code(f"{name}({value.value})", "int", value.null)

    return made


def _round(_writer: Writer, codes: list[Code], node: exp.Expr) -> Code:
    value = _number(codes[0], node)
    places = codes[1] if len(codes) > 1 else Code("0", "int")
    name = "_round_whole" if value.kind == "int" else "_round"
    return Code(f"{name}({value.value}, {places.value})", value.kind, either(value.null, places.null))


def _power(_writer: Writer, codes: list[Code], node: exp.Expr) -> Code:
    one, two = (converted(_number(code, node), "float", node) for code in codes)
    return Code(f"_power({one.value}, {two.value})", "float", either(one.null, two.null))


def _sign(writer: Writer, codes: list[Code], node: exp.Expr) -> Code:
    value = writer.kept(_number(codes[0], node))
    return Code(f"float(({value.value} > 0) - ({value.value} < 0))", "float", value.null)


def _coalesce(writer: Writer, codes: list[Code], node: exp.Expr) -> Code:
    kind = common_kind(codes, node)
    found = writer.kept(converted(codes[-1], kind, node))
    for code in reversed(codes[:-1]):
        code = writer.kept(converted(code, kind, node))
        if code.null == "False":
            found = code
            continue
        both = "False" if found.null == "False" else f"({code.null} and {found.null})"
        found = writer.kept(Code(f"({found.value} if {code.null} else {code.value})", kind, both))
    return found


def _null_if(writer: Writer, codes: list[Code], node: exp.Expr) -> Code:
    kind = common_kind(codes, node)
    one, two = (writer.kept(converted(code, kind, node)) for code in codes)
    same = (
        f"({one.value} == {two.value})" if two.null == "False" else f"(not {two.null} and {one.value} == {two.value})"
    )
    return Code(one.value, kind, either(one.null, same))


def above(one: Code, two: str) -> str:
    """Text that is true where one value is larger than another; NaN is larger than all others, as Spark has it."""
    return f"_above({one.value}, {two})" if one.kind == "float" else f"{one.value} > {two}"


def _extreme(*, largest: bool) -> Callable[[Writer, list[Code], exp.Expr], Code]:
    """GREATEST and LEAST: NULLs are left out."""

    def made(writer: Writer, codes: list[Code], node: exp.Expr) -> Code:
        kind = common_kind(codes, node)
        found = writer.kept(converted(codes[0], kind, node))
        for code in codes[1:]:
            code = writer.kept(converted(code, kind, node))
            better = above(code, found.value) if largest else above(found, code.value)
            if found.null != "False":
                better = f"({found.null} or {better})"
            if code.null != "False":
                better = f"(not {code.null} and {better})"
            both = "False" if "False" in (found.null, code.null) else f"({found.null} and {code.null})"
            found = writer.kept(Code(f"({code.value} if {better} else {found.value})", kind, both))
        return found

    return made


def _hash(_writer: Writer, codes: list[Code], node: exp.Expr) -> Code:
    """A number that looks random, the same for the same value and seed wherever it is computed."""
    seed = codes[1] if len(codes) > 1 else Code("0", "int")
    if codes[0].kind in ("float", "decimal", "other"):
        raise Fault("WRONG_TYPE", "hash64 takes whole numbers, times and text", node)
    name = "_hash" if codes[0].kind in ("int", "bool", "time", "date", "span", "null") else "_hash_text"
    return Code(f"{name}({codes[0].value}, {seed.value})", "int", either(codes[0].null, seed.null))


def _text(template: str, kind: Kind = "text") -> Callable[[Writer, list[Code], exp.Expr], Code]:
    def made(_writer: Writer, codes: list[Code], node: exp.Expr) -> Code:
        if codes[0].kind not in ("text", "null"):
            raise Fault("WRONG_TYPE", f"{WORDS[codes[0].kind]} stands where text is needed", node)
        return Code(template.format(*(code.value for code in codes)), kind, either(*(code.null for code in codes)))

    return made


def _concatenated(_writer: Writer, codes: list[Code], _node: exp.Expr) -> Code:
    pieces = [code.value if code.kind == "text" else f"_as_text({code.value}, {code.kind!r})" for code in codes]
    return Code(f"({' + '.join(pieces)})", "text", either(*(code.null for code in codes)))


#: By name: how many arguments at least and at most, and what is made of them.
FUNCTIONS: dict[str, tuple[int, int, Callable[[Writer, list[Code], exp.Expr], Code]]] = {
    "abs": (1, 1, _absolute),
    "sqrt": (1, 1, _real("_sqrt")),
    "exp": (1, 1, _real("_exp")),
    "ln": (1, 1, _real("_log", "> 0")),
    "log2": (1, 1, _real("_log2", "> 0")),
    "log10": (1, 1, _real("_log10", "> 0")),
    "floor": (1, 1, _whole("_floor")),
    "ceil": (1, 1, _whole("_ceil")),
    "round": (1, 2, _round),
    "power": (2, 2, _power),
    "sign": (1, 1, _sign),
    "coalesce": (1, 99, _coalesce),
    "nullif": (2, 2, _null_if),
    "greatest": (2, 99, _extreme(largest=True)),
    "least": (2, 99, _extreme(largest=False)),
    "hash64": (1, 2, _hash),
    "upper": (1, 1, _text("{0}.upper()")),
    "lower": (1, 1, _text("{0}.lower()")),
    "length": (1, 1, _text("len({0})", "int")),
    "trim": (1, 1, _text("{0}.strip(' ')")),
    "substring": (2, 3, _text("_substring({0}, {1})")),
    "concat": (1, 99, _concatenated),
}


def call(name: str, writer: Writer, codes: list[Code], node: exp.Expr) -> Code:
    """A call of one of the functions."""
    least, most, make = FUNCTIONS[name]
    if not least <= len(codes) <= most:
        raise Fault("WRONG_ARGUMENTS", f"{name} does not take {len(codes)} arguments", node)
    if name == "substring" and len(codes) == 3:
        nulls = either(*(code.null for code in codes))
        return Code(f"_substring({', '.join(code.value for code in codes)})", "text", nulls)
    return make(writer, codes, node)
