"""A file that cannot be imported."""

import a_module_no_one_has  # noqa: F401
