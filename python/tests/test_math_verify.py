"""Beside Math-Verify, on pairs where both are sure."""

import pytest
import tealight_rl

math_verify = pytest.importorskip("math_verify")


PAIRS = [
    (r"$\frac{1}{2}$", r"$0.5$", True), (r"$1/3$", r"$\frac{2}{6}$", True), (r"$\{1,2\}$", r"$\{2,1\}$", True),
    (r"$x+1$", r"$1+x$", True), (r"$\sqrt{8}$", r"$2\sqrt{2}$", True), (r"$(1,2)$", r"$(2,1)$", False),
    (r"$10$", r"\boxed{10}", True), (r"$10$", r"\boxed{11}", False), (r"$\pi$", r"$3$", False), (r"$12$", r"$21$", False),
    (r"$\frac{\sqrt{3}}{3}$", r"$\frac{1}{\sqrt{3}}$", True), (r"$2^{10}$", r"$1024$", True), (r"$-3$", r"$3$", False),
    (r"$\begin{pmatrix}1\\2\end{pmatrix}$", r"$\begin{pmatrix}1\\2\end{pmatrix}$", True), (r"$[0,1)$", r"$[0,1)$", True),
    (r"$50\%$", r"$0.5$", True), (r"$x=5$", r"$5$", True),
]


@pytest.mark.parametrize("gold, answer, expected", PAIRS)
def test_both_agree(gold, answer, expected):
    theirs = bool(math_verify.verify(math_verify.parse(gold), math_verify.parse(answer)))
    assert theirs == expected == tealight_rl.verify(gold, answer).correct


def test_what_their_timeout_refuses_runs_in_threads_here():
    """Math-Verify's timeout is a signal, which only the main thread has; ours is a budget of work."""
    import threading

    found = []
    thread = threading.Thread(target=lambda: found.append(tealight_rl.verify("1/2", "0.5").correct))
    thread.start()
    thread.join(10)
    assert found == [True]
