import importlib.metadata
import os
import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE / "_extensions"))
# Examples that are executed draw into files; small matrices are fastest with one thread.
os.environ.setdefault("MPLBACKEND", "agg")

project = "apolar"
author = "The apolar developers"
copyright = "The apolar developers, BSD 3-clause"
release = importlib.metadata.version("apolar")
version = release
extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "numpydoc",
    "sphinx-mathjax-offline",
    "sphinx_copybutton",
    "sphinxcontrib.bibtex",
    "sphinx_gallery.gen_gallery",
    "api_links",
]
exclude_patterns = [
    "paper/*",
    "_build",
    "_templates",
    "_extensions",
    "auto_examples/*.ipynb",
    "auto_examples/**/*.py",
]
templates_path = ["_templates"]
nitpicky = False
# Names in docstrings are links where they have a page, and code where not.
default_role = "py:obj"
highlight_language = "text"
toc_object_entries_show_parents = "hide"

myst_enable_extensions = ["dollarmath", "colon_fence"]
myst_heading_anchors = 3

# One page an object; their stubs are made in api/generated, which git ignores.
autosummary_generate = True
autosummary_imported_members = True
autodoc_typehints = "none"
numpydoc_show_class_members = False

# The prompts of Python and of a shell are not copied, nor is what they answer.
copybutton_prompt_text = r">>> |\.\.\. |\$ |> "
copybutton_prompt_is_regexp = True
copybutton_only_copy_prompt_lines = True

bibtex_bibfiles = ["refs.bib"]
bibtex_reference_style = "author_year"
bibtex_default_style = "plain"

sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "auto_examples",
    "filename_pattern": r"/plot_",
    "ignore_pattern": r"(demo|gallery)\.py$",
    "within_subsection_order": "ExampleTitleSortKey",
    "download_all_examples": False,
    "show_signature": False,
    "show_memory": False,
    "capture_repr": (),
    "abort_on_example_error": True,
    "doc_module": ("apolar",),
    "reference_url": {"apolar": None},
    "backreferences_dir": "api/backreferences",
    "remove_config_comments": True,
    "write_computation_times": False,
    "min_reported_time": 10_000,
}
suppress_warnings = ["config.cache"]

html_theme = "pydata_sphinx_theme"
html_title = "apolar"
html_static_path = ["_static"]
html_css_files = ["apolar.css"]
html_favicon = "_static/logo.svg"
html_logo = "_static/logo.svg"
html_show_sourcelink = False
html_sidebars = {"index": []}
html_theme_options = {
    "github_url": "https://github.com/apolar/apolar",
    "navbar_align": "left",
    "header_links_before_dropdown": 7,
    "show_toc_level": 2,
    "navigation_depth": 3,
    "logo": {"text": "apolar", "alt_text": "apolar, start page"},
    "footer_start": ["copyright"],
    "footer_end": ["theme-version"],
    "secondary_sidebar_items": ["page-toc"],
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
    # No icons, fonts or scripts from elsewhere: the site is read without a network.
    "search_bar_text": "Search, for example: GridSearchCV",
}
