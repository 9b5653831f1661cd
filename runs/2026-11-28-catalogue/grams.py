import pymongo,time,random,datetime,sys
c=pymongo.MongoClient("mongodb://127.0.0.1:28999/?directConnection=true",serverSelectionTimeoutMS=20000)
random.seed(1)
def doc(i):
    g=[random.randrange(-2**31,2**31) for _ in range(5)]
    return {"_id":f"p{i}","pid":f"p{i}","searchGrams":list(range(20))+g,"pad":"x"*800}
for mode in ("none","first"):
    d=c['x']['m'+mode]; d.drop()
    if mode=="first": d.create_index([("searchGrams",1)])
    t=time.perf_counter()
    for s in range(0,100000,1000):
        d.insert_many([doc(i) for i in range(s,s+1000)],ordered=False)
        if (s+1000)%20000==0: print(mode,s+1000,round(time.perf_counter()-t,2),flush=True)
