import pymongo,time,random,datetime,sys
c=pymongo.MongoClient(sys.argv[1],serverSelectionTimeoutMS=20000)
N=int(sys.argv[2])
single=["owner","contactEmail","sourceFolder","sourceFolderHost","size","type","creationLocation","createdBy","keywords","datasetName"]
dates=["creationTime","createdAt"]; access=["isPublished","ownerGroup","accessGroups","sharedWith"]
ix=[[(f,1)] for f in single]+[[(d,-1),("_id",-1)] for d in dates]+[[(a,1),(d,-1),("_id",-1)] for a in access for d in dates]+[[("pid",1)],[("techniques.pid",1)],[("updatedAt",1),("_id",1)]]
t0=datetime.datetime(2024,1,1)
def doc(i):
    g=[random.randrange(-2**31,2**31) for _ in range(5)]
    t=t0+datetime.timedelta(seconds=10*i)
    return {"_id":f"PID.SAMPLE.PREFIX/predefined_{i}","pid":f"PID.SAMPLE.PREFIX/predefined_{i}","searchGrams":list(range(20))+g,"owner":f"owner {i*7%500}","ownerGroup":f"group-{i*3%100}","accessGroups":[f"beamline-{i%20}"],"contactEmail":"c@e.org","sourceFolder":f"/data/{i%100}/run-{i}","creationTime":t,"createdAt":t,"updatedAt":t,"createdBy":"fill","keywords":[f"keyword-{i%50}"],"type":"raw","isPublished":True,"datasetName":f"run {i}","size":0,"creationLocation":f"/site/beamline-{i%20}","sharedWith":[],"pad":"x"*500}
for mode in sys.argv[3].split(","):
    d=c['x']['m'+mode]; d.drop()
    d.create_index([("searchGrams",1)])
    t=time.perf_counter()
    if mode=="first":
        d.create_indexes([pymongo.IndexModel(k) for k in ix])
    for s in range(0,N,500):
        d.insert_many([doc(i) for i in range(s,s+500)],ordered=False)
        if (s+500)%20000==0: print(mode,s+500,round(time.perf_counter()-t,2),flush=True)
    if mode=="last":
        for k in ix:
            t1=time.perf_counter(); d.create_indexes([pymongo.IndexModel(k)]); print(k,round(time.perf_counter()-t1,2),flush=True)
    if mode=="lastall":
        t1=time.perf_counter(); d.create_indexes([pymongo.IndexModel(k) for k in ix]); print("all",round(time.perf_counter()-t1,2),flush=True)
    print(mode,"total",round(time.perf_counter()-t,2),flush=True)
