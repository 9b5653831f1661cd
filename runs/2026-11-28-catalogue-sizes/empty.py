import pymongo,time,datetime,sys
c=pymongo.MongoClient(sys.argv[1],serverSelectionTimeoutMS=20000)
d=c['x']['q']
t0=datetime.datetime(2024,1,1)
D=lambda i: t0+datetime.timedelta(milliseconds=10*i)
def t(name,f):
    r=[]
    for _ in range(5):
        a=time.perf_counter(); n=len(list(f().sort([("updatedAt",-1),("_id",-1)]).limit(100))); r.append((time.perf_counter()-a)*1e3)
    print(name,round(sorted(r)[2],2),'ms',n,flush=True)
P={"_id":1,"updatedAt":1}
R={"updatedAt":{"$gte":D(1000),"$lte":D(1099)}}
t('flat',lambda: d.find(R,P))
t('and[R]',lambda: d.find({"$and":[R]},P))
t('and[R,{type}]',lambda: d.find({"$and":[R,{"type":None}]},P))
t('and[R,{}]',lambda: d.find({"$and":[R,{}]},P))
t('and[R+and,{type}]',lambda: d.find({"$and":[{**R,"$and":[{"pad":{"$ne":"y"}}]},{"type":None}]},P))
t('R, and[..]',lambda: d.find({**R,"$and":[{"pad":{"$ne":"y"}},{"type":None}]},P))
t('R, and[{}, {}]',lambda: d.find({**R,"$and":[{},{}]},P))
t('R, and[or, type]',lambda: d.find({**R,"$and":[{"$or":[{"pad":{"$ne":"y"}},{"a":1}]},{"type":None}]},P))
t('R, and[cursor cond]',lambda: d.find({**R,"$and":[{"updatedAt":{"$not":{"$gt":D(1099)}},"$or":[{"updatedAt":{"$ne":D(1099)}},{"_id":{"$lt":"p001099"}}]},{}]},P))
t('gte only near end',lambda: d.find({"updatedAt":{"$gte":D(29900)}},P))
t('and[gte only near end,{type}]',lambda: d.find({"$and":[{"updatedAt":{"$gte":D(29900)}},{"type":None}]},P))
t('and[gte only + and,{type}]',lambda: d.find({"$and":[{"updatedAt":{"$gte":D(29900)},"$and":[{"type":None}]},{"type":None}]},P))
t('pid: and[_id, x]',lambda: d.find({"$and":[{"_id":"p000777"},{"type":None}]},P))
t('pid: and[and[_id], x]',lambda: d.find({"$and":[{"$and":[{"_id":"p000777"}]},{"type":None}]},P))
t('pid: and[and[{},_id], x]',lambda: d.find({"$and":[{"$and":[{},{"_id":"p000777"}]},{"type":None}]},P))
t('pid: and[_id], {}',lambda: d.find({"$and":[{"_id":"p000777"},{}]},P))
