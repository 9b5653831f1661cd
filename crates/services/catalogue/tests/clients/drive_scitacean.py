"""Drives scitacean: login, check, create, files, attachment, query, read with relations, anonymous read."""

import sys
from datetime import datetime, timezone

import httpx
from scitacean import Attachment, Client, Dataset, ScicatCommError, model

base = sys.argv[1] + "/api/v3"
client = Client.from_credentials(url=base, username="ann", password="ann-secret", allow_http=True)

dataset = Dataset(
    type="raw",
    name="scan 1",
    contact_email="ann@x.org",
    creation_location="/beamline",
    creation_time=datetime(2025, 1, 1, tzinfo=timezone.utc),
    owner="ann",
    owner_group="group1",
    access_groups=["readers"],
    principal_investigators=["eve"],
    source_folder="/data/scan",
    keywords=["k"],
    meta={"energy": {"value": 5, "unit": "keV"}},
)
dataset.attachments = [
    Attachment(caption="c", owner_group="group1", thumbnail="data:image/png;base64,AA==")
]
client.scicat.validate_dataset_model(dataset.make_upload_model())
created = client.upload_new_dataset_now(dataset)
pid = created.pid
assert str(pid).startswith("PID.SAMPLE.PREFIX/"), pid

block = model.UploadOrigDatablock(
    datasetId=pid,
    size=5,
    dataFileList=[
        model.UploadDataFile(path="a.dat", size=5, time=datetime(2025, 1, 1, tzinfo=timezone.utc), chk="c")
    ],
    chkAlg="sha256",
)
client.scicat.create_orig_datablock(block)

read = client.get_dataset(pid, attachments=True)
assert read.name == "scan 1" and read.size == 5 and read.number_of_files == 1, read
assert [file.remote_path.posix for file in read.files] == ["a.dat"], list(read.files)
assert read.attachments[0].caption == "c", read.attachments
assert read.meta["energy"]["unitSI"] == "(kg m^2) / s^2", read.meta

found = client.scicat.query_datasets({"keywords": ["k"]}, order="creationTime:desc")
assert [str(dataset.pid) for dataset in found] == [str(pid)], found

try:
    Client.without_login(url=base, allow_http=True).get_dataset(pid)
    raise SystemExit("an anonymous caller read a dataset that is not published")
except ScicatCommError:
    pass

token = httpx.post(base + "/auth/login", json={"username": "ann", "password": "ann-secret"}).json()["id"]
path = base.replace("v3", "v4") + "/datasets/" + str(pid).replace("/", "%2F")
headers = {"Authorization": "Bearer " + token, "Content-Type": "application/merge-patch+json"}
assert httpx.patch(path, content='{"isPublished": true}', headers=headers).is_success
public = Client.without_login(url=base, allow_http=True).get_dataset(pid)
assert public.is_published, public
assert public.type == "raw", public.type
print("done")
