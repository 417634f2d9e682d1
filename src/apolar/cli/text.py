"""Text from files and names, made safe for a terminal."""


def escaped(text: str) -> str:
    """Return text as one line that cannot steer a terminal: control characters are written as escapes.

    Names of columns and files may hold anything, such as the codes that colour or erase lines.
    """
    return "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode("ascii")
        for character in text
    )


def escaped_lines(text: str) -> str:
    """Return text of several lines, each of them escaped."""
    return "\n".join(map(escaped, text.split("\n")))
