// This module has no code: it is the beginning of the documentation, and may link to all other modules.
