"""Plain English in what users and contributors read: no phrases that a native reader stumbles over."""

import ast
import io
import re
import tokenize
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "apolar"
pytestmark = pytest.mark.skipif(
    not (ROOT / ".github").is_dir(), reason="a source distribution does not have all texts"
)

# What reads oddly, an example of it, and what to write.
BANNED = [
    (
        r"(?:^|[.:;?!]\s+|\n\s*\n\s*|\n[-*#]\s+)Of\s(?!course)[^.;:]*?,",
        "Of 9 rows, 3",
        "'For ...' or 'Among ...'",
    ),
    (r"\b[Bb]eside\b", "a number beside its error", "'next to', 'with' or 'besides'"),
    (r"\b[Ss]o (?:many|few)\b", "with so many columns", "'this many', or the number"),
    (
        r"(?<!times\s)(?<!twice\s)(?<!half\s)(?<!least\s)\b[Aa]s (?:many|few)\b(?! (?:\S+ ){0,6}as\b)",
        "tables of as many rows",
        "'the same number of'",
    ),
    (
        r"(?<!there\s)(?<!There\s)\b(?:is|are|was|were) no\b(?! (?:longer|more|less|fewer|\w+er)\b)",
        "it is no JSON",
        "'is not a' or 'has no'",
    ),
    (r"\b[Bb]ut for\b", "equal but for rounding", "'except'"),
    (r"\b[Ii]n words\b", "the choice in words", "'as text'"),
    (
        r"\bparts? the (?:rows|means|clusters|classes)\b",
        "another optimum parts the rows",
        "'separates' or 'assigns'",
    ),
    (r"\b(?:is|are) to be\b", "how many are to be left", "'must be', or the plain verb"),
    (
        r"\b(?:[Ss]ay|[Ss]ays|[Ss]aid|[Tt]old|[Tt]ells?|[Pp]rove[sd]?|[Kk]nown?) of\b",
        "what it says of rows",
        "'about'",
    ),
    (r"\b(?:is|are|was|were)(?: not)? looked (?:at|for)\b", "where starts are looked for", "'examined'"),
    (r"\bnear by\b", "terms near by", "'nearby'"),
    (r"\b[Ll]ikest\b", "the likest cluster", "'most similar'"),
    (r"\b[Oo]ne (?:component|cluster|row|column|term) less\b", "one component less", "'one ... fewer'"),
    (r"\banother \w+ than\b", "another type than the first", "'differs from'"),
    (
        r"(?<!\bone\s)(?<!\bnone\s)(?<!\bsome\s)(?<!\beach\s)(?<!\bmost\s)(?<!\bboth\s)(?<!\ball\s)"
        r"(?<!\bpart\s)(?<!\bbest\s)(?<!\bfirst\s)(?<!\bsecond\s)(?<!`\s)\b[Oo]f which\b",
        "rows of which something is known",
        "'whose', or 'one of which' and the like",
    ),
    (r"(?:^|[.:;?!]\s+|\n\s*\n\s*)That are\b", "That are means", "'These are'"),
    (r"\b(?:if|where) (?:it|they) (?:is|are) none\b", 'or "" if it is none', "'if it is not a ...'"),
    (r"\b(?:has|have) not (?:a|an|one|two|three|any)\b", "a shape that has not two sides", "'does not have'"),
    (r"\b(?:it|they) (?:has|have) not\b(?=\s*[.,;:]|$)", "None for those it has not", "'does not have'"),
    (r"\b(?:each|every one) in its own way\b|\ball in the same way\b", "all in the same way", "the property"),
    (r"\btoo (?:large|small) for (?:a )?numbers?\b", "too large for a number", "'overflows', 'underflows'"),
    (r"\bas predicts?\b", "shrunk as strongly as predicts rows best", "the subject of 'predicts'"),
    (r"\bknows? nothing\b", "the method knows nothing of it", "'does not depend on', 'does not support'"),
    (r"\b(?:and|nor) so (?:is|are|has|have|do|does) not\b", "and so is not its rank", "'neither ... nor'"),
    (r"\b(?:does|do) not say (?:so|what)\b", "it does not say so", "what is missing"),
    (r"\bgives? (?:it|them|each|the \w+) back\b", "the terms give it back", "'reproduces', 'recovers'"),
    (r"\bas it should be\b", "that is as it should be", "'expected'"),
    (r"\bto go on\b", "the same command to go on", "'to continue'"),
    (r"(?:[.:;?!]\s+|\n\s*\n\s*)(?:And|Or|Nor) [a-z]", "The rows. And their weights", "a sentence"),
    (r"\b[Ii]n place of\b", "the median in place of the mean", "'instead of'"),
    (r"\b[Oo]ne less (?!than\b)", "one less the weight of noise", "'one minus'"),
    (
        r"\b(?:the one|the two|those|that one) (?:is|are) (?:taken|combined|chosen|kept|left|shown|dropped) "
        r"(?:that|which|for which|whose)\b",
        "the one is taken for which it is highest",
        "the relative clause next to its noun",
    ),
    (r"\bto speak of\b", "no volume to speak of", "'hardly any'"),
    (r"\bmost apart\b", "where clusters are most apart", "'separate best'"),
]
# A phrase may go on in the next line.
PHRASES = [(re.compile(pattern.replace(" ", r"\s+")), example, plain) for pattern, example, plain in BANNED]

PROSE = sorted(
    [
        *(ROOT / "docs").glob("*.md"),
        *(ROOT / "benchmarks" / "results").glob("*.md"),
        *(
            ROOT / name
            for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md", "Makefile")
        ),
        *SOURCE.rglob("*.html"),
    ]
)
CODE = sorted(
    [
        *(ROOT / "reproduction").rglob("*.py"),
        *SOURCE.rglob("*.py"),
        *(ROOT / "examples").glob("*.py"),
        *(ROOT / "benchmarks").glob("*.py"),
    ]
)
COMPILED = sorted(path for path in (ROOT / "src" / "kernels").iterdir() if path.suffix in {".c", ".h"})
TEXT = {"STRING", "FSTRING_START", "FSTRING_MIDDLE", "FSTRING_END", "COMMENT"}


def python_texts(source):
    """Yield the comments and strings of Python code with their lines; those that continue are joined."""
    kinds = {"NL": None, "NEWLINE": None, "INDENT": None, "DEDENT": None}
    line, kept, last = 1, [], None
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        name = tokenize.tok_name[token.type]
        if name in kinds:
            continue
        kind = ("comment" if name == "COMMENT" else "string") if name in TEXT else None
        if kind != last or kind is None:
            if kept:
                yield line, "\n".join(kept) if last == "comment" else "".join(kept)
            line, kept, last = token.start[0], [], kind
        if kind == "comment":
            kept.append(token.string.lstrip("# "))
        elif kind == "string":
            kept.append(re.sub(r"^\w{0,2}[\"']+|[\"']+$", "", token.string))
    if kept:
        yield line, "\n".join(kept)


def texts(path):
    """Yield the texts of a file that people read, with their lines."""
    source = path.read_text()
    if path.suffix == ".py":
        yield from python_texts(source)
    elif path in COMPILED:
        for found in re.finditer(r"/\*.*?\*/|//.*|\"[^\"\n]*\"", source, flags=re.DOTALL):
            yield source.count("\n", 0, found.start()) + 1, re.sub(r"^/\*\s*|^//\s*|^\"", "", found[0])
    else:
        blocks = re.split(r"(\n\s*\n)", source)
        line = 1
        for block in blocks:
            if not re.match(r"```(?:python|bash|\n)", block):
                yield line, block
            line += block.count("\n")


def odd_phrases(path):
    """Return the banned phrases of a file, each with its line and what to write in its place."""
    name = path.relative_to(ROOT).as_posix()
    found = []
    for line, text in texts(path):
        for phrase, _, plain in PHRASES:
            for match in phrase.finditer(text):
                row, shown = line + text.count("\n", 0, match.start()), " ".join(match[0].split())
                found.append(f"{name}:{row}: {shown!r}: write {plain}")
    return found


@pytest.mark.parametrize("files", [PROSE, CODE, COMPILED], ids=["prose", "python", "kernels"])
def test_texts_are_plain_english(files):
    assert files
    found = [phrase for path in files for phrase in odd_phrases(path)]
    assert not found, "\n".join(found)


def test_functions_are_not_named_by_a_bare_participle():
    found = [
        f"{path.relative_to(ROOT)}:{node.lineno}: {node.name}"
        for path in sorted(SOURCE.rglob("*.py"))
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.FunctionDef) and re.fullmatch(r"_?[a-z]+ed", node.name)
    ]
    assert not found, "\n".join(found)


@pytest.mark.parametrize(("phrase", "example"), [each[:2] for each in PHRASES])
def test_the_search_finds_phrases_in_comments_docstrings_and_messages(phrase, example):
    code = f"""# {example}, or not.
def function(beside, so_many):
    '\''{example}, or not.'\''
    return f"{example}, or not"
"""
    found = [(line, bool(phrase.search(text))) for line, text in python_texts(code)]
    assert [line for line, is_odd in found if is_odd] == [1, 3, 4]


@pytest.mark.parametrize(
    "text",
    [
        "Of course, there is no file.",
        "twice as many, or at least as many rows; as many groups as rows are no fewer",
        "what remains besides",
    ],
)
def test_plain_phrases_pass(text):
    assert not any(phrase.search(text) for phrase, _, _ in PHRASES)
