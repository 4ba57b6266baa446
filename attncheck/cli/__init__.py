"""Commands: click in front of the drivers. No numerics here."""
