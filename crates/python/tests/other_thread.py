# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What another thread is told."""

import threading
from collections.abc import Callable, Iterable

import straightway


def refusals(calls: Iterable[Callable[[], object]]) -> list[str]:
    """Makes the calls in another thread; the texts of those that are refused there."""
    said: list[str] = []

    def use() -> None:
        for call in calls:
            try:
                call()
            except straightway.UsageError as error:
                said.append(error.text)

    thread = threading.Thread(target=use)
    thread.start()
    thread.join()
    return said
