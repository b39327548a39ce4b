"""Oracle: a server on this machine that speaks as the hub does, and its cache without a server."""

import http.server
import json
import threading

import pytest

import keras_albert
from keras_albert.checkpoints import to_huggingface
from tests.checkpoints.conftest import WORDS, assert_same_weights, load, make_bert

SHA = "0123456789abcdef0123456789abcdef01234567"


@pytest.fixture
def hub(tmp_path, monkeypatch):
    """A hub with one repository, owner/tiny; gives its folder and the paths asked for."""
    constants = pytest.importorskip("huggingface_hub.constants")
    folder, asked = tmp_path / "served", []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self, body=True):
            asked.append(self.path)
            path = self.path.split("?")[0]
            files = sorted(file.name for file in folder.iterdir())
            if path.startswith("/api/models/owner/tiny"):
                if "/tree/" in path:
                    value = [
                        {"type": "file", "path": n, "oid": "0" * 40, "size": size(n)} for n in files
                    ]
                else:
                    siblings = [{"rfilename": name} for name in files]
                    value = {"id": "owner/tiny", "sha": SHA, "siblings": siblings}
                self.reply(json.dumps(value).encode(), "application/json", body)
            elif path.startswith(f"/owner/tiny/resolve/{SHA}/"):
                data = (folder / path.rsplit("/", 1)[1]).read_bytes()
                self.reply(data, "application/octet-stream", body)
            else:
                self.send_error(404)

        def do_HEAD(self):
            self.do_GET(body=False)

        def reply(self, data, kind, body):
            self.send_response(200)
            for name, value in (
                ("Content-Type", kind),
                ("Content-Length", str(len(data))),
                ("ETag", f'"{len(data):040d}"'),
                ("X-Repo-Commit", SHA),
            ):
                self.send_header(name, value)
            self.end_headers()
            if body:
                self.wfile.write(data)

        def log_message(self, *_):
            pass

    def size(name):
        return (folder / name).stat().st_size

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    address = f"http://127.0.0.1:{server.server_port}"  # what HF_ENDPOINT sets at the start
    template = constants.HUGGINGFACE_CO_URL_TEMPLATE.replace(constants.ENDPOINT, address)
    monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)
    monkeypatch.setattr(constants, "ENDPOINT", address)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(constants, "HF_HUB_DISABLE_PROGRESS_BARS", True)
    yield folder, asked
    server.shutdown()
    server.server_close()


def test_a_handle_downloads_and_then_comes_from_the_cache(hub, tmp_path, monkeypatch):
    from huggingface_hub import constants

    folder, asked = hub
    model = make_bert(num_layers=1, vocabulary_size=len(WORDS))
    to_huggingface(model, folder, tokenizer=keras_albert.BertTokenizer(WORDS))
    (folder / "pytorch_model.bin").write_bytes(b"never downloaded beside safetensors")
    loaded = load("hf://owner/tiny")
    assert_same_weights(loaded, model)
    assert loaded.preprocessor.tokenizer.get_vocabulary() == WORDS
    assert not any("pytorch_model" in path for path in asked)
    snapshot = next((tmp_path / "cache").glob("models--owner--tiny/snapshots/*"))
    assert (snapshot / "model.safetensors").is_symlink()  # into the cache's own blobs

    asked.clear()
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    assert_same_weights(load("hf://owner/tiny"), model)
    assert_same_weights(load(snapshot), model)
    assert not asked
    with pytest.raises(ValueError, match="hub does not give this checkpoint.*owner/other"):
        load("hf://owner/other")


@pytest.mark.parametrize("handle", ["hf://owner", "hf://owner/../etc", "hf://a/b/c"])
def test_a_handle_is_owner_and_name(handle):
    with pytest.raises(ValueError, match=r"must be 'hf://owner/name'.*Received: 'hf://"):
        load(handle)
