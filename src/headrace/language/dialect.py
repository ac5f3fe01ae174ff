"""The Headrace dialect of sqlglot: Spark's, with our tokenizer, parser and printer."""

# mypy: allow-subclassing-any
from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from sqlglot import exp
from sqlglot.dialects.spark import Spark
from sqlglot.errors import ErrorLevel, UnsupportedError
from sqlglot.generators.spark import SparkGenerator

from headrace.errors import LanguageError
from headrace.language import nodes
from headrace.language.query_parser import HeadraceParser
from headrace.language.times import format_seconds
from headrace.language.tokens import HeadraceTokenizer


class HeadraceGenerator(SparkGenerator):
    """Prints our nodes back to the text they came from, in one normal spelling.

    The printers must not be named `*_sql`: sqlglot finds its own by that name, and `length_sql` would print LENGTH(s).
    """

    def print_length(self, expression: nodes.Length) -> str:
        unit = self.sql(expression, "unit")
        return self.sql(expression, "this") + (f" {unit}" if unit else "")

    def print_streamwindow(self, expression: nodes.StreamWindow) -> str:
        words = []
        if expression.args.get("partition_by"):
            words.append(f"PARTITION BY {self.expressions(expression, key='partition_by', flat=True)}")
        words += [expression.args["kind"], self.sql(expression, "this") or "UNBOUNDED"]
        if slide := self.sql(expression, "slide"):
            words.append(f"SLIDE {slide}")
        if expression.args.get("internal"):
            words.append("INTERNAL")
        return f"[{' '.join(words)}]"

    def print_sync(self, expression: nodes.Sync) -> str:
        return f"SYNC {self.sql(expression, 'this')}"

    def print_partreference(self, expression: nodes.PartReference) -> str:
        to = self.sql(expression, "to")
        return f"[{self.sql(expression, 'this')}{f' .. {to}' if to else ''}]"

    def print_patternvariable(self, expression: nodes.PatternVariable) -> str:
        return self.sql(expression, "this") + ("+" if expression.args.get("plus") else "")

    def print_pattern(self, expression: nodes.Pattern) -> str:
        within = self.sql(expression, "within")
        return f"PATTERN [{self.expressions(expression, flat=True)}]" + (f" WITHIN {within}" if within else "")

    def print_rowpattern(self, expression: nodes.RowPattern) -> str:
        return self.expressions(expression, flat=True, sep=" ")

    def print_matchrecognize(self, expression: nodes.MatchRecognize) -> str:
        words = [self.partition_by_sql(expression).strip(), self.sql(expression, "order").strip()]
        if measures := self.expressions(expression, key="measures", flat=True):
            words.append(f"MEASURES {measures}")
        words += [self.sql(expression, "rows"), self.sql(expression, "after")]
        words.append(f"PATTERN ({self.sql(expression, 'pattern')})")
        if within := self.sql(expression, "within"):
            words.append(f"WITHIN {within}")
        words.append(self.sql(expression, "subset"))
        defined = [f"{self.sql(it, 'alias')} AS {self.sql(it, 'this')}" for it in expression.args.get("define") or ()]
        words.append(f"DEFINE {', '.join(defined)}" if defined else "")
        alias = self.sql(expression, "alias")
        return f" MATCH_RECOGNIZE ({' '.join(word for word in words if word)})" + (f" AS {alias}" if alias else "")

    def print_asoftime(self, expression: nodes.AsOfTime) -> str:
        return f"AS OF {format_seconds(int(expression.name))}"

    def print_asofsnapshot(self, expression: nodes.AsOfSnapshot) -> str:
        return f"AS OF SNAPSHOT {expression.name}"

    def print_relation(self, expression: nodes.Relation) -> str:
        name = self.table_parts(expression)
        if shown := expression.args.get("changes_of"):
            name = f"CHANGES({name}, OLD)" if shown == nodes.CHANGES_AND_OLD else f"{shown}({name})"
        # A part is written as in the paper, close to its relation: M[j-1].
        suffixes = [
            ("" if isinstance(suffix, nodes.PartReference) else " ") + self.sql(suffix)
            for suffix in expression.args.get("suffixes") or ()
        ]
        # sqlglot prints the tail (alias, sample, joins, ...) of any table after its name.
        tail = self.table_sql(expression)[len(self.table_parts(expression)) :]
        return "".join([name, *suffixes]) + tail

    def print_windowedsubquery(self, expression: nodes.WindowedSubquery) -> str:
        suffixes = " ".join(self.sql(suffix) for suffix in expression.args.get("suffixes") or ())
        alias = self.sql(expression, "alias")
        return f"{self.wrap(expression)} {suffixes}" + (f" AS {alias}" if alias else "")

    def print_slidingwindow(self, expression: nodes.SlidingWindow) -> str:
        window = self.window_sql(expression)
        if slide := self.sql(expression, "slide"):
            return f"{window[:-1]} SLIDE {slide})"
        return f"{window[:-1]} ACTIVE EXPIRATION)" if expression.args.get("active") else window

    def print_relationtostream(self, expression: nodes.RelationToStream) -> str:
        window = self.sql(expression, "window")
        return f"{expression.spelling}({self.expressions(expression, flat=True)})" + (f" {window}" if window else "")

    def print_now(self, _: nodes.Now) -> str:
        return "Now"

    def var_sql(self, expression: exp.Var) -> str:
        # STREAMED and COMPLETE are marked while parsing (see `tokens`), never in the text.
        return expression.name.strip("<>") if expression.name.startswith("<") else super().var_sql(expression)

    TABLESAMPLE_SEED_KEYWORD = "REPEATABLE"

    # sqlglot finds printers of classes outside its own package only in this table.
    TRANSFORMS: ClassVar[dict[type[exp.Expr], Callable[..., str]]] = {
        **SparkGenerator.TRANSFORMS,
        # Spark has exact percentiles WITHIN GROUP since 3.4; sqlglot would make them approximate.
        exp.WithinGroup: SparkGenerator.withingroup_sql,
        # The same as IS NOT DISTINCT FROM, of which Sail does not know that rows can be joined by their hashes.
        exp.NullSafeEQ: lambda self, expression: self.binary(expression, "<=>"),
        nodes.Length: print_length,
        nodes.StreamWindow: print_streamwindow,
        nodes.Sync: print_sync,
        nodes.PartReference: print_partreference,
        nodes.PatternVariable: print_patternvariable,
        nodes.Pattern: print_pattern,
        nodes.RowPattern: print_rowpattern,
        nodes.MatchRecognize: print_matchrecognize,
        nodes.AsOfTime: print_asoftime,
        nodes.AsOfSnapshot: print_asofsnapshot,
        nodes.Relation: print_relation,
        nodes.WindowedSubquery: print_windowedsubquery,
        nodes.SlidingWindow: print_slidingwindow,
        nodes.Now: print_now,
        **dict.fromkeys(nodes.RELATION_TO_STREAM.values(), print_relationtostream),
    }


class Headrace(Spark):
    Tokenizer = HeadraceTokenizer
    Parser = HeadraceParser
    Generator = HeadraceGenerator


DIALECT = Headrace()


def headrace_sql(tree: exp.Expr) -> str:
    """One line of Headrace text, without comments."""
    # An argument that sqlglot cannot print must not be dropped in silence: the query would mean something else.
    generator = DIALECT.generator(comments=False, normalize_functions=False, unsupported_level=ErrorLevel.RAISE)
    try:
        return generator.generate(tree)
    except UnsupportedError as error:
        raise LanguageError(
            "UNPRINTABLE_EXPRESSION",
            "This expression is known to the parser but cannot be handed to Spark.",
            detail=str(error),
        ) from None
