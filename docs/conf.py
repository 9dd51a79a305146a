"""Sphinx's settings. `make docs` builds the site from a staged copy of this folder (tools/site/build.py)."""

import os

project = "Taper"
author = "The Taper authors"
copyright = author
release = version = os.environ.get("TAPER_VERSION", "")
extensions = ["myst_parser", "sphinx_copybutton"]
source_suffix = {".md": "markdown"}
exclude_patterns = ["README.md"]
myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3
suppress_warnings = ["myst.header", "misc.highlighting_failure"]
highlight_language = "none"
smartquotes = False  # curly quotes and long dashes would change what stands in texts as code
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True
html_theme = "furo"
html_title = f"Taper {release}".strip()
html_static_path = ["_static"]
templates_path = ["_templates"]
html_css_files = ["taper.css"]
html_logo = "_static/logo.svg"
html_favicon = "_static/logo.svg"
html_show_sphinx = False
html_copy_source = False
html_use_index = False
html_theme_options = {
    "light_css_variables": {"color-brand-primary": "#0b6e4f", "color-brand-content": "#0b6e4f"},
    "dark_css_variables": {"color-brand-primary": "#5fd3a8", "color-brand-content": "#5fd3a8"},
}
