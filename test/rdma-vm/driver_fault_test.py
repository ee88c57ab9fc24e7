#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""driver_fault_test.py: the result of vm_test.py for a guest whose kernel fails in the RDMA driver,
and for one whose kernel does not. The machine is a script that prints the output of real ones."""
import contextlib
import io
import os
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
import vm_test

CASES = ['conformance', 'cut', 'cut-short', 'one-side']
LOCKUP = '''watchdog: BUG: soft lockup - CPU#0 stuck for 78s! [hosts-rank:185]
Modules linked in: rdma_ucm rdma_rxe ib_uverbs
RIP: 0010:rxe_requester+0x323/0xe40 [rdma_rxe]'''
STALL = '''rcu: INFO: rcu_preempt detected stalls on CPUs/tasks:
 ip_local_out+0x5e/0x70
 rxe_xmit_packet.part.0+0x11/0x20 [rdma_rxe]'''
STARVED = '''rcu: rcu_preempt kthread starved for 5252 jiffies!
 ? rxe_do_task+0x83/0x110 [rdma_rxe]'''
ELSEWHERE = '''watchdog: BUG: soft lockup - CPU#0 stuck for 78s! [hosts-rank:185]
Modules linked in: rdma_ucm rdma_rxe ib_uverbs
RIP: 0010:tcp_sendmsg+0x323/0xe40'''
# A boot: in the case BAD the kernel prints LOG, and the machine ends, unless GOES_ON is set; OTHER
# fails, too.
RIG = '''#!/bin/bash
while [[ $1 != -- ]]; do [[ $1 != --console ]] || console=$2; shift; done
shift
echo "rdma-vm: kernel 6.1.0-56-amd64, tcg, 2 CPUs; command started after 1 ms" >&2
echo "$*" >>boots
. "./boot$(wc -l <boots)"
for case; do
    echo "rdma-vm case $case" >>"$console"
    echo "== $case"
    end=ok
    [[ $case != "$other" ]] || end=FAILED
    if [[ $case == "$bad" ]]; then
        echo "$log" >>"$console"
        [[ $goes_on ]] || break
        end=FAILED
    fi
    echo "== $case: $end after 1.0 s"
done
exit $status
'''


class DriverFault(unittest.TestCase):
    def run_boots(self, *boots):
        """Returns the status, and the cases of each boot."""
        with tempfile.TemporaryDirectory(prefix='rdma-vm-test.') as folder:
            os.chdir(folder)
            vm_test.RIG = os.path.join(folder, 'rig')
            for name, text in {'rig': RIG, 'boots': '', **{
                    f'boot{number}': ''.join(f"{key}='{value}'\n" for key, value in boot.items())
                    for number, boot in enumerate(boots, 1)}}.items():
                with open(name, 'w', encoding='ascii') as file:
                    file.write(text)
            os.chmod('rig', 0o755)
            with contextlib.redirect_stdout(io.StringIO()) as output:
                status = vm_test.run(lambda cases: vm_test.Boot([], [], cases, None), CASES)
            self.skipped = [line for line in output.getvalue().splitlines() if line.startswith('skipped: ')]
            with open('boots', encoding='ascii') as file:
                listed = [line.split() for line in file]
            os.chdir('/')
            return status, listed

    def test_good(self):
        self.assertEqual(self.run_boots({'status': 0}), (0, [CASES]))

    def test_dies(self):
        for log, function in ((LOCKUP, 'rxe_requester'), (STALL, 'rxe_xmit_packet'), (STARVED, 'rxe_do_task')):
            boots = {'bad': 'cut-short', 'log': log, 'status': 125}, {'status': 0}
            self.assertEqual(self.run_boots(*boots), (0, [CASES, ['one-side']]))
            self.assertEqual(self.skipped, [f'skipped: cut-short: the kernel 6.1.0-56-amd64 failed in {function}'])

    def test_stops_answering(self):
        boots = {'bad': 'cut', 'log': STALL, 'status': 124}, {'status': 0}
        self.assertEqual(self.run_boots(*boots), (0, [CASES, ['cut-short', 'one-side']]))

    def test_goes_on(self):
        """The kernel survives, and this case or later ones fail."""
        boots = {'bad': 'cut', 'log': STALL, 'goes_on': 'yes', 'other': 'one-side', 'status': 1}, {'status': 0}
        self.assertEqual(self.run_boots(*boots), (0, [CASES, ['one-side']]))

    def test_last_case(self):
        self.assertEqual(self.run_boots({'bad': 'one-side', 'log': LOCKUP, 'status': 125}), (0, [CASES]))

    def test_twice(self):
        boots = {'bad': 'cut', 'log': LOCKUP, 'status': 125}, {'bad': 'cut-short', 'log': LOCKUP, 'status': 125}
        self.assertEqual(self.run_boots(*boots), (125, [CASES, ['cut-short', 'one-side']]))

    def test_failure_in_second_boot(self):
        boots = {'bad': 'cut', 'log': LOCKUP, 'status': 125}, {'other': 'one-side', 'status': 1}
        self.assertEqual(self.run_boots(*boots)[0], 1)

    def test_own_failures(self):
        """A hang or an error of the library, also together with another kernel problem, or before
        the driver's."""
        for boot in ({'bad': 'cut', 'log': '', 'status': 124}, {'other': 'cut', 'status': 1},
                     {'bad': 'cut', 'log': ELSEWHERE, 'status': 125},
                     {'other': 'conformance', 'bad': 'cut', 'log': LOCKUP, 'status': 125}):
            self.assertEqual(self.run_boots(boot), (boot['status'], [CASES]))
            self.assertEqual(self.skipped, [])


if __name__ == '__main__':
    unittest.main()
