"""Runs mpi4py's own tests and writes how each one ended, and after how many seconds, a file a rank.

    outcomes.py TESTS OUTPUT [mpi4py's options ...]
"""

import os
import sys
import time
import unittest

tests, output = sys.argv[1:3]
sys.argv[1:3] = []
sys.dont_write_bytecode = True
sys.path.insert(0, tests)
os.chdir(tests)

import main  # noqa: E402  (mpi4py's, from TESTS)


class Outcomes(unittest.TextTestResult):
    """Notes the outcome of every test; a subtest that fails counts as its test's outcome."""

    def startTestRun(self):
        from mpi4py import MPI

        super().startTestRun()
        # Line by line, so that a run that hangs shows where.
        self.notes = open(f"{output}.{MPI.COMM_WORLD.rank}", "w", buffering=1)

    def startTest(self, test):
        super().startTest(test)
        self.outcome = "ok"
        self.since = time.monotonic()

    def stopTest(self, test):
        super().stopTest(test)
        print(test.id(), self.outcome, f"{time.monotonic() - self.since:.3f}", sep="\t", file=self.notes)

    def addError(self, test, error):
        super().addError(test, error)
        self.note(test, f"error {error[0].__name__}")

    def addFailure(self, test, error):
        super().addFailure(test, error)
        self.note(test, "failed")

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        self.note(test, "skipped")

    def addSubTest(self, test, subtest, error):
        super().addSubTest(test, subtest, error)
        if error is not None:
            self.note(test, f"subtest failed with {error[0].__name__}")

    def note(self, test, outcome):
        self.outcome = outcome
        if not isinstance(test, unittest.TestCase):
            # A class or module that could not be set up: there is no stopTest.
            print(test.id(), outcome, 0, sep="\t", file=self.notes)


class Program(main.TestProgram):
    def runTests(self):
        self.testRunner = unittest.TextTestRunner(resultclass=Outcomes, verbosity=0)
        super().runTests()


Program(module=None)
