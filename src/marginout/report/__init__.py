"""Write reports: one HTML file, complete without a network and without scripts.

`markup` writes elements and escapes text, `charts` draws, `page` joins the parts with `style.css` and
`script.js`. The script only adds a slider over the deletion rate.
"""

from marginout.report.charts import Line, deletion_figure, validation_map
from marginout.report.markup import Raw, facts, table, tag
from marginout.report.page import Section, page

__all__ = ["Line", "Raw", "Section", "deletion_figure", "facts", "page", "table", "tag", "validation_map"]
