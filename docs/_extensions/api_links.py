"""What the guides do not spell out: links, so that they read well without Sphinx too, and help of commands.

A key of the bibliography in brackets, as in ``[louis1982]``, becomes a citation. A name of the API that
stands as code in a guide, as in ``apolar.select`` or ``GaussianMixture``, becomes a link to its page. The
empty line that ends a doctest is not shown. ``{command-help} fit`` is what ``apolar fit --help`` prints.
"""

import re
from pathlib import Path

from click.testing import CliRunner
from docutils import nodes
from docutils.parsers.rst import Directive
from sphinx import addnodes

KEY = re.compile(r"(?<![\w`\]])\[([a-z]+[0-9]{4}[a-z]*)\](?![(\[`])")
CALL = re.compile(r"^(?:apolar\.)?([A-Za-z_][\w.]*)(?:\(.*\))?$", re.DOTALL)
FENCE = re.compile(r"(^```.*?^```$)", re.MULTILINE | re.DOTALL)
# Methods and attributes of a fitted mixture are written with this name in the guides.
INSTANCES = {"gm": "GaussianMixture"}


def keys_of_bibliography(folder):
    """Return the keys of refs.bib."""
    return set(re.findall(r"^@\w+\{(\w+),", (Path(folder) / "refs.bib").read_text(), flags=re.MULTILINE))


def cite_in_guides(app, docname, source):
    """Turn keys in brackets into citations, but for those in code."""
    if docname.startswith(("api/", "auto_examples/")) or Path(app.env.doc2path(docname)).suffix != ".md":
        return
    keys = keys_of_bibliography(app.srcdir)

    def cite(match):
        return f"{{cite:p}}`{match[1]}`" if match[1] in keys else match[0]

    parts = FENCE.split(source[0])
    source[0] = "".join(part if part.startswith("```") else KEY.sub(cite, part) for part in parts)


def cite_in_docstrings(app, what, name, obj, options, lines):  # noqa: ARG001 (Sphinx calls it so)
    """Turn keys in brackets into citations, in what autodoc reads."""
    keys = keys_of_bibliography(app.srcdir)
    for number, line in enumerate(lines):
        lines[number] = KEY.sub(lambda match: f":cite:p:`{match[1]}`" if match[1] in keys else match[0], line)


def link_code(app, doctree):
    """Make names of the API that stand as code references to their pages."""
    docname = app.env.docname
    if docname.startswith("api/generated"):
        return
    for literal in list(doctree.findall(nodes.literal)):
        if isinstance(literal.parent, (nodes.reference, addnodes.pending_xref, nodes.title)):
            continue
        match = CALL.match(literal.astext())
        if match is None:
            continue
        target = full_name(match[1], plain=not literal.astext().startswith("apolar."))
        if target is None:
            continue
        reference = addnodes.pending_xref(
            "",
            refdomain="py",
            reftype="obj",
            reftarget=target,
            refexplicit=True,
            refwarn=False,
            refdoc=docname,
        )
        literal.replace_self(reference)
        reference += literal


def full_name(name, plain):
    """Return the name of an object that has a page, or None."""
    import apolar

    first, _, rest = name.partition(".")
    if first in INSTANCES:
        return f"apolar.{INSTANCES[first]}.{rest}" if rest else None
    if plain and first not in apolar.__all__:
        # Names that are words as well, such as "sample", are linked only where their owner is written out.
        return None
    return f"apolar.{name}"


def trim_code(app, doctree):  # noqa: ARG001 (Sphinx calls it so)
    """Leave out empty lines at the end of code, which doctests need."""
    for block in doctree.findall(nodes.literal_block):
        text = block.astext().rstrip()
        block.rawsource, block.children = text, [nodes.Text(text)]


class CommandHelp(Directive):
    """The help of a command."""

    required_arguments = 1

    def run(self):
        """Return what the command prints."""
        from apolar.cli import main

        printed = CliRunner().invoke(main, [self.arguments[0], "--help"], prog_name="apolar").output
        return [nodes.literal_block(printed, printed, language="text")]


def setup(app):
    """Connect the steps."""
    app.add_directive("command-help", CommandHelp)
    app.connect("source-read", cite_in_guides)
    # After numpydoc, which has its own meaning for brackets.
    app.connect("autodoc-process-docstring", cite_in_docstrings, priority=900)
    app.connect("doctree-read", link_code)
    app.connect("doctree-read", trim_code)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
