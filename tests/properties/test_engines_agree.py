"""The same scenario on Apache Spark and on Sail gives the same relations and the same changes."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from headrace.engine import Engine
from tests.properties.harness import bag, changes, fresh, hold
from tests.properties.scenarios import POLICIES, Scenario, scenarios
from tests.properties.test_views import GAPS, play


def outcome(engine: Engine, scenario: Scenario) -> dict[str, Any]:
    with fresh(engine) as home:
        play(home, scenario)
        session = home.session
        return {
            name: (
                [field.dataType.simpleString() for field in session.table(name).schema.fields],
                bag(session.table(name)),
                bag(session.table(name, as_of=6)),
                Counter(changes(session, name)),
            )
            for name in ("s", "t", "u", *(view.name for view in scenario.views))
        }


@pytest.mark.slow
def test_two_engines_agree(spark_engine: Engine, sail_engine: Engine) -> None:
    def agree(engine: Engine, scenario: Scenario) -> None:
        assert outcome(engine, scenario) == outcome(sail_engine, scenario)

    hold(agree, spark_engine, scenarios(GAPS["sail"], POLICIES), 20)
