"""The scenario language: YAML files in, validated and expanded Scenarios out, or every mistake with its place."""

from attncheck.scenario.command_line import command_line, from_command_line, override
from attncheck.scenario.diagnostics import Diagnostic, Mistake, ScenarioErrors, render, render_all
from attncheck.scenario.load import load
from attncheck.scenario.model import Scenario, Source, Tolerance
from attncheck.scenario.select import matches, select

__all__ = [
    "Diagnostic",
    "Mistake",
    "Scenario",
    "ScenarioErrors",
    "Source",
    "Tolerance",
    "command_line",
    "from_command_line",
    "load",
    "matches",
    "override",
    "render",
    "render_all",
    "select",
]
