import importlib.metadata

project = "apolar"
author = "The apolar developers"
release = importlib.metadata.version("apolar")
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx-mathjax-offline", "numpydoc"]
myst_enable_extensions = ["dollarmath"]
numpydoc_show_class_members = False
exclude_patterns = ["paper/*", "_build"]
html_theme = "alabaster"
html_theme_options = {
    "description": "Symmetric tensors and Gaussian mixtures from moments",
    "page_width": "1160px",
}
nitpicky = False
