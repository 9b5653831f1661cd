import sys,time,pymongo
c=pymongo.MongoClient(f"mongodb://127.0.0.1:{sys.argv[1]}/?directConnection=true")
d=c['scicat']['Dataset']
doc=d.find_one(); pid=doc['pid']
def t(name,f,n=10):
    f(); s=time.perf_counter()
    for _ in range(n): f()
    print(f"{name:30}", round((time.perf_counter()-s)/n*1e3,3),'ms')
S=[("creationTime",-1)]
acc={"isPublished":True}
anon=acc
t('flat pub,pid', lambda:list(d.find({"isPublished":True,"pid":pid}).sort(S).limit(25)))
t('flat pid,pub', lambda:list(d.find({"pid":pid,"isPublished":True}).sort(S).limit(25)))
t('and[acc,pid]', lambda:list(d.find({"$and":[acc,{"pid":pid}]}).sort(S).limit(25)))
t('and[pid,acc]', lambda:list(d.find({"$and":[{"pid":pid},acc]}).sort(S).limit(25)))
t('pid,$and[acc]', lambda:list(d.find({"pid":pid,"$and":[acc]}).sort(S).limit(25)))
t('_id,$and[acc]', lambda:list(d.find({"_id":doc['_id'],"$and":[acc]}).sort(S).limit(25)))
t('and hint pid', lambda:list(d.find({"$and":[acc,{"pid":pid}]}).sort(S).limit(25).hint([("pid",1)])))
t('and hint _id', lambda:list(d.find({"$and":[acc,{"_id":doc['_id']}]}).sort(S).limit(25).hint([("_id",1)])))
t('or acc, pid', lambda:list(d.find({"pid":pid,"$or":[{"isPublished":True},{"ownerGroup":{"$in":["a","b"]}}]}).sort(S).limit(25)))
t('and or', lambda:list(d.find({"$and":[{"$or":[{"isPublished":True},{"ownerGroup":{"$in":["a","b"]}}]},{"pid":pid}]}).sort(S).limit(25)))
t('pid,$and[or]', lambda:list(d.find({"pid":pid,"$and":[{"$or":[{"isPublished":True},{"ownerGroup":{"$in":["a","b"]}}]}]}).sort(S).limit(25)))
t('list flat', lambda:list(d.find({"isPublished":True}).sort(S).limit(25)))
t('list and', lambda:list(d.find({"$and":[{"isPublished":True},{}]}).sort(S).limit(25)))
t('list flat sort id', lambda:list(d.find({"isPublished":True}).sort(S+[("_id",-1)]).limit(25)))
t('list and1', lambda:list(d.find({"$and":[{"isPublished":True}]}).sort(S+[("_id",-1)]).limit(25)))
