"""What each extra is for, done once with an installed forecache.

Every use is a program that runs with the Python of the installation, in an empty folder. It gets
the folder with examples as its argument and ends with an error if something is not as it should be.
"""

USES: dict[str, tuple[str, str]] = {}
"""Of each extra what is done, as a reader would say it, and the program."""

_START = """
import json, pathlib, re, subprocess, sys, urllib.request
examples = pathlib.Path(sys.argv[1])
command = str(pathlib.Path(sys.executable).with_name("forecache"))

def forecache(*arguments):
    done = subprocess.run([command, *map(str, arguments)], capture_output=True, text=True)
    if done.returncode:
        sys.exit(done.stderr or done.stdout or "it printed nothing")
    return done.stdout

NODE = '''
host: c7g.large
engine: valkey
engine_version: "8.0"
io_threads: {sweep: [1, 2]}
workload: {clients: 20, keys: 1000, value_bytes: 64}
'''
pathlib.Path("node.yaml").write_text(NODE)
"""


def _use(extra: str, says: str, program: str) -> None:
    USES[extra] = (says, _START + program)


_use(
    "engine",
    "`observe`",
    """
import os
# Without servers of the machine.
os.environ["PATH"] = str(pathlib.Path(sys.executable).parent)
forecache("observe", "--quiet", "--out", "bundle")
assert any(pathlib.Path("bundle").iterdir())
""",
)
_use(
    "compression",
    "`plan` with zstd",
    """
pathlib.Path("plan.yaml").write_text(f'''
kind: plan
demand:
  operations: {{get: 10_000, set: 1_000}}
  keys: 1_000_000
  key_bytes: 30
  value_bytes: 1_100
  compression: {{algorithm: zstd, level: 3, above_bytes: 100,
                sample: {examples}/values/orders.jsonl, values: lines}}
  clients_per_node: 50
objectives: {{slo: {{p99_ms: 1.0, probability: 0.9}}}}
choices: {{instances: [r7g.large], engines: [{{engine: valkey, versions: ["9.1"]}}]}}
''')
answer = json.loads(forecache("plan", "--quiet", "--json", "plan.yaml"))
assert answer["plans"]
""",
)
_use(
    "parquet",
    "`sweep --nominal`",
    """
import pyarrow.parquet
forecache("sweep", "--quiet", "--nominal", "--out", "swept", "node.yaml")
assert pyarrow.parquet.read_table("swept").num_rows == 2
""",
)
_use(
    "dask",
    "`sweep --scheduler`",
    """
from distributed import LocalCluster
if __name__ == "__main__":
    with LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=None) as cluster:
        address = cluster.scheduler_address
        forecache("sweep", "--quiet", "--nominal", "--out", "swept", "--scheduler", address,
                  "node.yaml")
    assert list(pathlib.Path("swept").glob("part-*.parquet"))
""",
)
_use(
    "explore",
    "`explore`",
    """
server = subprocess.Popen([command, "explore", "node.yaml"], stdout=subprocess.PIPE, text=True)
try:
    for line in server.stdout:
        if found := re.search(r"http://127.0.0.1:\\d+/[\\w-]+/", line):
            with urllib.request.urlopen(found.group()) as page:
                assert "</html>" in page.read().decode()
            break
    else:
        sys.exit("explore printed no address")
finally:
    server.terminate()
    server.wait()
""",
)
_use(
    "paper",
    "`recommend --report FILE.pdf`",
    """
forecache("recommend", "--quiet", "--report", "page.pdf", "node.yaml")
assert pathlib.Path("page.pdf").read_bytes().startswith(b"%PDF")
""",
)
_use(
    "frames",
    "`to_frame()`",
    """
import forecache
frame = forecache.simulate("node.yaml").to_frame()
assert frame["io_threads"].tolist() == [1, 2] and (frame["throughput_rps"] > 0).all()
""",
)
_use(
    "notebook",
    "a cell in a kernel",
    """
from jupyter_client.manager import start_new_kernel
manager, client = start_new_kernel(kernel_name="python3")
shown = []
try:
    cell = "import forecache; answer = forecache.simulate('node.yaml'); answer"
    reply = client.execute_interactive(cell, timeout=300, output_hook=shown.append)
    assert reply["content"]["status"] == "ok", reply["content"]
    cell = "answer.to_frame()"
    reply = client.execute_interactive(cell, timeout=300, output_hook=shown.append)
    assert reply["content"]["status"] == "ok", reply["content"]
finally:
    client.stop_channels()
    manager.shutdown_kernel(now=True)
pages = [each["content"]["data"].get("text/html", "") for each in shown
         if each["msg_type"] == "execute_result"]
assert len(pages) == 2 and all("<table" in page for page in pages), pages
""",
)
