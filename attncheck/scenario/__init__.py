"""The scenario language: YAML files in, validated and expanded Scenarios out, or every mistake with its place."""

from attncheck.scenario.diagnostics import Diagnostic, Mistake, ScenarioErrors, render, render_all
from attncheck.scenario.load import load
from attncheck.scenario.model import Scenario, Source, Tolerance

__all__ = [
    "Diagnostic",
    "Mistake",
    "Scenario",
    "ScenarioErrors",
    "Source",
    "Tolerance",
    "load",
    "render",
    "render_all",
]
