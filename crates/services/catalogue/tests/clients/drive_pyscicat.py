"""Drives pyscicat: login, create, files, attachment, query, update, delete."""

import sys

from pyscicat.client import ScicatClient, ScicatCommError, ScicatLoginError
from pyscicat.model import (
    Attachment,
    CreateDatasetOrigDatablockDto,
    DataFile,
    DerivedDataset,
    RawDataset,
)

base = sys.argv[1] + "/api/v3"

try:
    ScicatClient(base_url=base, username="ann", password="wrong")
    raise SystemExit("a wrong password was accepted")
except ScicatLoginError:
    pass

client = ScicatClient(base_url=base, username="ann", password="ann-secret")
common = dict(
    contactEmail="ann@x.org",
    creationTime="2025-01-01T00:00:00Z",
    owner="ann",
    ownerGroup="group1",
    accessGroups=["readers"],
    sourceFolder="/data/scan",
    scientificMetadata={"energy": {"value": 5, "unit": "keV"}, "note": "plain"},
)
raw = RawDataset(
    **common,
    pid="20.500/raw 1",
    creationLocation="/beamline",
    principalInvestigator="eve",
    proposalId="p1",
    keywords=["k"],
    size=999,
)
pid = client.datasets_create(raw)
assert pid == "20.500/raw 1", pid
derived = client.datasets_create(
    DerivedDataset(**common, investigator="eve", inputDatasets=[pid], usedSoftware=["x"])
)
assert derived and derived != pid, derived

# The client writes a space in a path as a plus sign, so further steps use the other dataset.
files = [DataFile(path="a.dat", size=5, time="2025-01-01T00:00:00Z")]
block = CreateDatasetOrigDatablockDto(dataFileList=files, size=5)
client.datasets_origdatablock_create(derived, block)
blocks = client.datasets_origdatablocks_get_one(derived)
assert [file["path"] for file in blocks[0]["dataFileList"]] == ["a.dat"], blocks

client.datasets_attachment_create(
    Attachment(datasetId=derived, thumbnail="data:image/png;base64,AA==", caption="c", ownerGroup="group1")
)

found = client.datasets_find(query_fields={"keywords": ["k"]})
assert [dataset["pid"] for dataset in found] == [pid], found
found = client.datasets_get_many({"proposalId": "p1"})
assert [dataset["pid"] for dataset in found] == [pid], found
assert found[0]["proposalId"] == "p1" and found[0]["size"] == 0, found

one = client.datasets_get_one(derived)
assert (one["size"], one["numberOfFiles"], one["investigator"]) == (5, 1, "eve"), one
assert one["scientificMetadata"]["energy"]["unitSI"] == "(kg m^2) / s^2", one

change = DerivedDataset(
    **{**common, "owner": "bob"}, investigator="eve", inputDatasets=[pid], usedSoftware=["x"], description="new"
)
client.datasets_update(change, derived)
one = client.datasets_get_one(derived)
assert (one["owner"], one["description"], one["size"]) == ("bob", "new", 5), one
assert one["history"][0]["owner"] == {"previousValue": "ann", "currentValue": "bob"}, one

try:
    client.datasets_delete(derived)
    raise SystemExit("an owner deleted a dataset")
except ScicatCommError:
    pass
ScicatClient(base_url=base, username="cleaner", password="cleaner-secret").datasets_delete(derived)
try:
    client.datasets_get_one(derived)
    raise SystemExit("a deleted dataset was found")
except ScicatCommError:
    pass
print("done")
