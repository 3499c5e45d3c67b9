from typing import Any

from numpy.typing import NDArray

LANES: int
AVAILABLE: bool

def solve(*args: Any) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]: ...
