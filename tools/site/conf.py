"""The site's settings for Sphinx: make site."""

import os

project = "transformer.h"
version = release = os.environ["SITE_VERSION"]
extensions = ["myst_parser"]
source_suffix = {".md": "markdown"}
html_theme = "furo"
html_title = f"transformer.h {version}"
html_show_sphinx = html_show_copyright = False
add_function_parentheses = False
html_copy_source = False
myst_heading_anchors = 4
myst_enable_extensions = ["colon_fence"]
exclude_patterns: list[str] = []
# Every reference must lead somewhere. Code of several languages stands in blocks that are not all whole programs.
suppress_warnings = ["misc.highlighting_failure", "myst.header"]
# Pages work without a network: no fonts or scripts of other sites
html_theme_options = {"navigation_with_keys": True}
