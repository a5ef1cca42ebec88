# SPDX-License-Identifier: Apache-2.0 OR MIT
"""A device's requests for asyncio.

>>> import asyncio, straightway
>>> from straightway.aio import AsyncDevice
>>> async def main():
...     with straightway.open("ram:1M", write=True) as device:
...         requests = AsyncDevice(device)
...         buffer = device.allocate(8192)
...         half = memoryview(buffer)
...         await asyncio.gather(requests.write(0, half[:4096]), requests.write(4096, half[4096:]))
...         await requests.read(0, half[:4096])
>>> asyncio.run(main())

Where the path has a descriptor of its completions (io_uring), the loop sleeps on it. Elsewhere the loop polls the device in each turn
while requests are in flight, beside its other tasks: a processor is busy for so long, as with any polled path.
"""

import asyncio
from collections import deque
from typing import TYPE_CHECKING

from straightway import Device, QueueFullError

if TYPE_CHECKING:
    from straightway._types import AnyBuffer


class AsyncDevice:
    """Awaitable requests to a device. It belongs to the loop of the device's thread, and takes all of the device's completions."""

    def __init__(self, device: Device) -> None:
        self._device = device
        self._file = device.completion_file()
        self._in_flight = 0
        self._is_kicked = True
        self._is_polling = False
        self._full: deque[asyncio.Future[None]] = deque()

    async def read(self, offset: int, buffer: "AnyBuffer") -> None:
        """Reads as many bytes as `buffer` has, at most `max_transfer_bytes`."""
        await self._request(lambda done: self._device.submit_read(offset, buffer, done))

    async def write(self, offset: int, buffer: "AnyBuffer", *, durable: bool = False) -> None:
        """Writes likewise."""
        await self._request(lambda done: self._device.submit_write(offset, buffer, done, durable=durable))

    async def flush(self) -> None:
        """Makes all completed writes durable."""
        await self._request(lambda done: self._device.submit_flush(done))

    async def _request(self, submit: "_Submit") -> None:
        loop = asyncio.get_running_loop()
        done: asyncio.Future[None] = loop.create_future()
        while True:
            try:
                submit(done)
                break
            except QueueFullError:
                if self._in_flight == 0:
                    raise
                room: asyncio.Future[None] = loop.create_future()
                self._full.append(room)
                await room
        self._in_flight += 1
        if self._is_kicked:
            # Once for all that this turn of the loop submits.
            self._is_kicked = False
            loop.call_soon(self._kick, loop)
        # A request in flight cannot be cancelled: its memory is the device's until it ends.
        await asyncio.shield(done)

    def _kick(self, loop: asyncio.AbstractEventLoop) -> None:
        self._is_kicked = True
        self._device.kick()
        if self._is_polling:
            return
        self._is_polling = True
        if self._file is not None:
            loop.add_reader(self._file, self._take, loop)
        # What has ended by now may not make the file readable.
        self._take(loop)

    def _take(self, loop: asyncio.AbstractEventLoop) -> None:
        for completion in self._device.poll():
            self._in_flight -= 1
            done: asyncio.Future[None] = completion.tag
            if done.done():
                continue
            if completion.error is None:
                done.set_result(None)
            else:
                done.set_exception(completion.error)
        free = self._device.queue_depth - self._device.outstanding
        while self._full and free > 0:
            room = self._full.popleft()
            if not room.done():
                room.set_result(None)
                free -= 1
        if self._in_flight == 0:
            self._is_polling = False
            if self._file is not None:
                loop.remove_reader(self._file)
        elif self._file is None:
            loop.call_soon(self._take, loop)


if TYPE_CHECKING:
    from collections.abc import Callable

    _Submit = Callable[[asyncio.Future[None]], None]
