"""The command `kvferry`, as its users run it: tool_command.py KVFERRY [TEST...].

Looks at what it prints and how it ends, never at how long anything took.
"""
import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest

KVFERRY = sys.argv.pop(1)
PATIENCE = 240  # seconds, for a busy machine and sanitizers; a test that waits so long has failed


def run(*arguments, **environment):
    return subprocess.run(
        [KVFERRY, *arguments], env={**os.environ, **environment}, timeout=PATIENCE, text=True,
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )


class Info(unittest.TestCase):
    def test_lists_version_configuration_and_plugins(self):
        ran = run("info")
        self.assertEqual((ran.returncode, ran.stderr), (0, ""))
        self.assertRegex(ran.stdout, r"^kvferry \d+\.\d+\.\d+\n")
        self.assertRegex(ran.stdout, r"(?m)^  KVF_MAX_ROOMS +131072 +default +\w")
        self.assertRegex(ran.stdout, r"(?m)^  shm: ")
        self.assertRegex(ran.stdout, r"(?m)^    transport +.*writes.*same host only")

    def test_is_one_json_object_on_request(self):
        ran = run("info", "--json", KVF_SHARDS="3")
        self.assertEqual((ran.returncode, ran.stderr), (0, ""))
        info = json.loads(ran.stdout)
        self.assertRegex(info["version"], r"^\d+\.\d+\.\d+$")
        shards = next(entry for entry in info["configuration"] if entry["name"] == "KVF_SHARDS")
        self.assertEqual((shards["value"], shards["source"], shards["default"]), ("3", "environment", "auto"))
        shm = next(plugin for plugin in info["plugins"] if plugin["name"] == "shm")
        self.assertIsNone(shm["refused"])
        self.assertEqual(shm["kind"], "transport")
        self.assertIn("writes", shm["capabilities"])

    def test_tells_why_a_plugin_is_refused(self):
        with tempfile.TemporaryDirectory() as folder:
            pathlib.Path(folder, "broken.so").write_text("not an object\n")
            found = json.loads(run("info", "--json", KVF_PLUGIN_PATH=folder).stdout)["plugins"]
            broken = next(plugin for plugin in found if plugin["path"].endswith("/broken.so"))
            self.assertTrue(broken["refused"])
            text = run("info", KVF_PLUGIN_PATH=folder).stdout
            self.assertIn(f"{folder}/broken.so\n    {broken['refused']}\n", text)


class Bootstrap(unittest.TestCase):
    def start(self, *arguments):
        server = subprocess.Popen(
            [KVFERRY, "bootstrap", *arguments], text=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )
        self.addCleanup(lambda: (server.kill(), server.communicate()))
        host, port = server.stdout.readline().strip().rsplit(":", 1)
        return server, (host, int(port))

    def test_answers_at_the_address_that_it_prints(self):
        _, address = self.start()
        with socket.create_connection(address, timeout=PATIENCE) as connection:
            connection.sendall(b"GET /health HTTP/1.1\r\nHost: here\r\nConnection: close\r\n\r\n")
            answer = b""
            while piece := connection.recv(4096):
                answer += piece
        self.assertRegex(answer, rb"^HTTP/1\.1 200 ")

    def test_ends_well_by_a_signal(self):
        for number in (signal.SIGINT, signal.SIGTERM):
            server, address = self.start("--listen", "127.0.0.1:0")
            with socket.create_connection(address, timeout=PATIENCE):  # one that says nothing keeps nobody
                server.send_signal(number)
                self.assertEqual(server.wait(PATIENCE), 0)

    def test_says_that_its_port_is_taken(self):
        _, (host, port) = self.start()
        ran = run("bootstrap", "--listen", f"{host}:{port}")
        self.assertEqual((ran.returncode, ran.stdout), (1, ""))
        self.assertIn("KVF_ERR_ADDRESS_IN_USE", ran.stderr)


class Bench(unittest.TestCase):
    def figures(self, *arguments, **environment):
        ran = run("bench", *arguments, "--quick", "--json", **environment)
        self.assertEqual(ran.returncode, 0, ran.stderr)
        figures = {}
        for line in ran.stdout.splitlines():
            figure = json.loads(line)
            self.assertEqual(list(figure), ["name", "value", "unit", "peer", "peer_value", "ratio"])
            self.assertNotIn(figure["name"], figures)
            compared = [figure[key] is not None for key in ("peer", "peer_value", "ratio")]
            self.assertIn(compared, ([True] * 3, [False] * 3), line)
            figures[figure["name"]] = figure
        return figures

    def test_poll(self):
        figures = self.figures("poll")
        self.assertIn("poll.10_open", figures)
        self.assertIn("poll_many.10_open", figures)

    def test_enqueue(self):
        figures = self.figures("enqueue")
        self.assertLessEqual({"enqueue.1_page.busy", "enqueue.512_pages.busy", "enqueue.again"}, set(figures))

    def test_rooms(self):
        figures = self.figures("rooms", "--in-flight", "16")
        self.assertLessEqual({"rooms.rate", "rooms.latency.from_open", "rooms.latency.from_send.p99"}, set(figures))

    def test_shm(self):
        figures = self.figures("shm")
        for kind in ("mapped", "own", "own_small"):
            self.assertLessEqual({f"shm.{kind}.{size}" for size in ("4_KiB", "1_MiB", "4_MiB", "16_MiB")}, set(figures))

    def test_serving_finds_every_room_and_page_right(self):
        figures = self.figures("serving", "--rooms", "12", "--tokens", "300")
        for side in ("decode", "prefill"):
            success = figures[f"serving.success.{side}"]
            self.assertEqual((success["value"], success["peer_value"]), (24, 24))  # two rounds
        self.assertEqual(figures["serving.wrong_pages"]["value"], 0)
        self.assertEqual(figures["serving.bytes"]["ratio"], 1)

    def test_serving_is_compared_with_as_many_threads_as_an_engine_has_shards(self):
        for arguments, environment, shards in (
            ([], {"KVF_SHARDS": "3"}, 3),
            (["--shards", "2"], {"KVF_SHARDS": "3"}, 2),
            ([], {}, min(4, len(os.sched_getaffinity(0)))),
        ):
            with self.subTest(arguments, **environment):
                figures = self.figures("serving", "--rooms", "4", "--tokens", "128", *arguments, **environment)
                self.assertEqual(figures["serving.rate.threads"]["peer"], f"memcpy of the same pages, {shards} threads")

    def test_serving_one_room_beside_memcpy(self):
        latency = self.figures("serving", "--rooms", "1", "--tokens", "512")["serving.latency"]
        self.assertIn("memcpy", latency["peer"])

    def test_is_a_table_otherwise(self):
        ran = run("bench", "poll", "--quick")
        self.assertEqual(ran.returncode, 0, ran.stderr)
        self.assertRegex(ran.stdout, r"(?m)^poll\.10_open +[\d.]+  ns +[\d.]+  an atomic load")

    def test_second_process_does_not_outlive_the_first(self):
        bench = subprocess.Popen([KVFERRY, "bench", "rooms"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.addCleanup(lambda: (bench.kill(), bench.wait()))
        children = pathlib.Path(f"/proc/{bench.pid}/task/{bench.pid}/children")
        deadline = time.monotonic() + PATIENCE
        while not (second := children.read_text().split()):
            self.assertLess(time.monotonic(), deadline, "no second process was started")
            time.sleep(0.001)
        bench.kill()
        bench.wait()
        while True:
            try:
                state = pathlib.Path(f"/proc/{second[0]}/stat").read_text().rsplit(")", 1)[1].split()[0]
            except (FileNotFoundError, ProcessLookupError):
                break
            if state == "Z":  # ended; whoever inherited it has not asked yet
                break
            self.assertLess(time.monotonic(), deadline, "the second process still runs")
            time.sleep(0.01)


class Usage(unittest.TestCase):
    def test_wrong_usage_fails_with_a_sentence(self):
        for arguments, sentence in (
            ([], "A subcommand is required"),
            (["sail"], '"sail" is not known'),
            (["bench", "hull"], '"hull" is not known'),
            (["bench"], "A subcommand is required"),
            (["info", "--colour"], "--colour"),
            (["bench", "rooms", "--in-flight", "0"], "--in-flight"),
            (["bench", "serving", "--rooms", "many"], "--rooms"),
            (["bench", "serving", "--rooms", "0"], "0 rooms"),
            (["bench", "serving", "--pool-gib", "0.001"], "a pool of"),
            (["bootstrap", "--listen", "nowhere"], "nowhere"),
        ):
            with self.subTest(arguments):
                ran = run(*arguments)
                self.assertNotEqual(ran.returncode, 0)
                self.assertIn(sentence, ran.stderr)
                self.assertEqual(ran.stdout, "")

    def test_second_process_is_not_for_people(self):
        ran = run("bench-second-process", "rooms", str(os.getpid()))
        self.assertNotEqual(ran.returncode, 0)
        self.assertIn("not for people", ran.stderr)
        self.assertNotIn("bench-second-process", run("--help").stdout)


if __name__ == "__main__":
    unittest.main()
