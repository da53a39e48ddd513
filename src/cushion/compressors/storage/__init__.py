"""A compressed net as it is stored: whole numbers, message, graph; and as an exact integer net."""
