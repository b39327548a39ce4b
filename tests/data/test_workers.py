import signal
import time

import cloudpickle
import pytest

from keras_albert.data import workers


@pytest.mark.backend_free
def test_ctrl_c_at_any_moment_of_its_start_does_not_reach_a_worker(capfd):
    """A terminal sends it to the workers too, and the first of it falls in their imports."""
    for milliseconds in (0, 5, 10, 20, 40, 80):
        with workers._Worker(cloudpickle.dumps(str.upper)) as worker:
            time.sleep(milliseconds / 1000)
            worker._process.send_signal(signal.SIGINT)
            assert worker.ask("here") == "HERE"
    assert capfd.readouterr().err == ""
    assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, [])


@pytest.mark.backend_free
def test_results_are_in_the_order_of_the_inputs_whatever_the_number_of_workers():
    inputs = [f"text {n}" for n in range(40)]
    for num_workers in (1, 2, 3):
        assert list(workers.map_in_order(str.upper, inputs, num_workers)) == [
            x.upper() for x in inputs
        ]
