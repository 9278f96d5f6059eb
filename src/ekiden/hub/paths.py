"""From a path to what stands there: a tree of path segments, walked once per request."""

from typing import Generic, TypeVar

T = TypeVar("T")


class _Node(Generic[T]):
    __slots__ = ("any_name", "any_node", "children", "methods")

    def __init__(self) -> None:
        self.children: dict[str, _Node[T]] = {}
        self.any_node: _Node[T] | None = None
        self.any_name = ""
        self.methods: dict[str, T] = {}


class Paths(Generic[T]):
    """Path templates (`/v1/sessions/{session_id}/items`) with one value per method."""

    def __init__(self) -> None:
        self._root: _Node[T] = _Node()

    def add(self, method: str, template: str, value: T) -> None:
        """Two values for the same method and template are a mistake in the program."""
        node = self._root
        for segment in template.strip("/").split("/"):
            if segment.startswith("{"):
                name = segment[1:-1]
                if node.any_node is None:
                    node.any_node, node.any_name = _Node(), name
                assert node.any_name == name, f"{template}: {{{node.any_name}}} and {{{name}}} stand in one place"
                node = node.any_node
            else:
                node = node.children.setdefault(segment, _Node())
        assert method not in node.methods, f"{method} {template} is there twice"
        node.methods[method] = value

    def find(self, path: str) -> tuple[dict[str, T], dict[str, str]] | None:
        """The methods at `path` and its parameters, or None. A written segment goes before a parameter."""
        parameters: dict[str, str] = {}
        node = self._root
        for segment in path[1:].split("/"):
            child = node.children.get(segment)
            if child is None:
                child = node.any_node
                if child is None or not segment:
                    return None
                parameters[node.any_name] = segment
            node = child
        return (node.methods, parameters) if node.methods else None
