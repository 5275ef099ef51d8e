"""The order in which the loader relocates a load (glibc elf/dl-sort-maps.c). It decides which error comes first."""

from __future__ import annotations

from typing import Callable, List, Sequence


def relocation_order(
    search_list: Sequence[int], needed: Callable[[int], Sequence[int]], *, root_first: bool, depth_first: bool
) -> List[int]:
    """Objects in relocation order: the dependencies of an object before it, the root last.

    search_list  the root's breadth-first list; its first element is the root
    needed       direct dependencies of an object
    root_first   keep the root at the head of the sorted list (all loads but that of libc itself)
    depth_first  the algorithm that is the default since glibc 2.35
    """
    if depth_first:
        ordered = _depth_first(search_list, needed)
        if root_first and ordered and ordered[0] != search_list[0]:
            ordered.remove(search_list[0])
            ordered.insert(0, search_list[0])
    else:
        ordered = _original(search_list, needed, root_first)
    return ordered[::-1]


def _depth_first(maps: Sequence[int], needed: Callable[[int], Sequence[int]]) -> List[int]:
    """_dl_sort_maps_dfs: reverse postorder, starting from the end of the list."""
    inside, visited = set(maps), set()
    postorder: List[int] = []
    root = maps[0]
    for start in reversed(maps):
        if start in visited:
            continue
        visited.add(start)
        stack = [(start, iter(() if start == root else needed(start)))]
        while stack:
            current, pending = stack[-1]
            for dependency in pending:
                if dependency not in visited:
                    visited.add(dependency)
                    # The root has no list of its own yet when the loader sorts (its l_initfini is being built).
                    stack.append((dependency, iter(() if dependency == root else needed(dependency))))
                    break
            else:
                stack.pop()
                if current in inside:
                    postorder.append(current)
    return postorder[::-1]


def _original(maps: Sequence[int], needed: Callable[[int], Sequence[int]], root_first: bool) -> List[int]:
    """_dl_sort_maps_original: move an object behind the last one that depends on it."""
    skip = 1 if root_first else 0
    ordered = list(maps[skip:])
    count = len(ordered)
    if count <= 1:
        return list(maps)
    seen = [0] * count
    at = 0
    while True:
        seen[at] += 1
        current = ordered[at]
        last = count - 1
        moved = False
        while last > at:
            if current in needed(ordered[last]):
                ordered[at : last + 1] = [*ordered[at + 1 : last + 1], current]
                if seen[at + 1] > count - at:
                    at += 1
                    seen[at:] = [0] * (count - at)
                else:
                    seen[at : last + 1] = [*seen[at + 1 : last + 1], seen[at]]
                moved = True
                break
            last -= 1
        if moved:
            continue
        at += 1
        if at == count:
            break
        seen[at:] = [0] * (count - at)
    return [*maps[:skip], *ordered]
