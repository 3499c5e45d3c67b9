"""Order of the examples: first those that show the purpose of the library."""

ORDER = (
    "text",
    "reviews",
    "sensors",
    "missing",
    "regression",
    "digits",
    "when",
    "choose_rate",
    "noises",
    "expectations",
    "hidden_units",
    "calibration",
)


class Order:
    """Sorting key for sphinx-gallery; examples that ORDER does not list come last."""

    def __init__(self, src_dir: str) -> None:
        self.src_dir = src_dir

    def __call__(self, filename: str) -> tuple[int, str]:
        name = filename.removeprefix("plot_").removesuffix(".py")
        return (ORDER.index(name) if name in ORDER else len(ORDER)), filename
