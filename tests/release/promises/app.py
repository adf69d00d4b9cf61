"""`app` opens a page at a secret address of this machine, and nowhere else."""

import re
import urllib.error
import urllib.request

from .commands import WITHOUT_OCR, draw, editcritic, free_port, running

draw()
port = free_port()
with running("app", "samples.jsonl", "--reward", WITHOUT_OCR, "--port", str(port), printed=r"http://127\S+") as address:
    with urllib.request.urlopen(address, timeout=30) as response:
        page = response.read().decode()
    assert "gradio" in page, page[:300]
    secret = re.sub(r"^http://[^/]+/|/$", "", address)
    assert len(secret) > 20, address
    status = 200
    try:
        urllib.request.urlopen(address.replace(secret, "a" * len(secret)), timeout=30)
    except urllib.error.HTTPError as refused:
        status = refused.code
    assert status in {403, 404}, f"{status} without the secret of the address"
editcritic("audit", "demo", "--limit", "1", "--reward", "guard-not-a-copy", "--family", "blank")  # it contains `bench`
