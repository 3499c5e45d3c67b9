from typing import Any

from numpy.typing import NDArray

def solve(*args: Any) -> tuple[NDArray[Any], NDArray[Any]]: ...
