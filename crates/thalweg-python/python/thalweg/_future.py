"""Awaiting a task in asyncio."""

import asyncio


def wait(task):
    """Returns the iterator of `await task`."""
    loop = asyncio.get_running_loop()
    ended = loop.create_future()

    def set_ended():
        if not ended.done():  # the waiter may have been cancelled
            ended.set_result(None)

    def call_back(_task):
        try:
            loop.call_soon_threadsafe(set_ended)
        except RuntimeError:  # the loop is closed, so nothing waits any more
            pass

    task.add_done_callback(call_back)
    yield from ended
    return task.result()
