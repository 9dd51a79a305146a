"""torch.futures: what happens to errors. TAPER_TEST_MODULE=torch runs the same tests against PyTorch."""

import importlib
import os
import pickle

import pytest

NAME = os.environ.get("TAPER_TEST_MODULE", "taper")
futures = importlib.import_module(NAME + ".futures")


def fail(future):
    raise ValueError("a reason")


def test_the_error_of_a_callback_reaches_only_the_future_that_then_made():
    future = futures.Future()
    following = future.then(fail)
    future.add_done_callback(fail)
    future.set_result(5)
    assert future.wait() == 5
    with pytest.raises(RuntimeError, match="Got the following error when running the callback: ValueError: a reason"):
        following.wait()


def test_what_is_no_future_and_what_cannot_be_pickled():
    with pytest.raises(RuntimeError, match="Future can't be None"):
        futures.collect_all((futures.Future(), None))
    with pytest.raises(RuntimeError, match="Can not pickle torch.futures.Future"):
        pickle.dumps(futures.Future())
