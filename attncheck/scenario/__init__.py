"""The scenario language: YAML files in, validated and expanded Scenarios out, or every mistake with its place."""
