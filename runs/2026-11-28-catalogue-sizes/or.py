import pymongo,time,datetime,sys
c=pymongo.MongoClient(sys.argv[1],serverSelectionTimeoutMS=20000)
d=c['x']['q']; d.drop(); d.create_index([("updatedAt",1),("_id",1)])
t0=datetime.datetime(2024,1,1)
D=lambda i: t0+datetime.timedelta(milliseconds=10*i)
for s in range(0,30000,1000): d.insert_many([{"_id":f"p{i:06}","updatedAt":D(i),"pad":"x"*3000} for i in range(s,s+1000)])
def t(name,f):
    r=[]
    for _ in range(5):
        a=time.perf_counter(); n=len(list(f().sort([("updatedAt",1),("_id",1)]).limit(100))); r.append((time.perf_counter()-a)*1e3)
    print(name,round(sorted(r)[2],2),'ms',n,flush=True)
P={"_id":1,"updatedAt":1}
t('range low',lambda: d.find({"updatedAt":{"$gte":D(1000),"$lte":D(1099)}},P))
t('range low gt',lambda: d.find({"updatedAt":{"$gt":D(1000),"$lte":D(1099)}},P))
t('range with or',lambda: d.find({"updatedAt":{"$gte":D(1000),"$lte":D(1099)},"$or":[{"updatedAt":{"$gt":D(1000)}},{"_id":{"$gt":"p001000"}}]},P))
t('eq+_id',lambda: d.find({"updatedAt":D(1000),"_id":{"$gt":"p001000"}},P))
t('range first, and(or)',lambda: d.find({"updatedAt":{"$gte":D(1000),"$lte":D(1099)},"$and":[{"$or":[{"updatedAt":{"$gt":D(1000)}},{"_id":{"$gt":"p001000"}}]}]},P))
t('desc cursor',lambda: d.find({"$and":[{"updatedAt":{"$gte":D(1000),"$lte":D(1099)},"$and":[{"$and":[{},{"updatedAt":{"$not":{"$gt":D(1099)}},"$or":[{"updatedAt":{"$ne":D(1099)}},{"_id":{"$lt":"p001099"}}]}]}]},{}]},P))
t('desc cursor no or',lambda: d.find({"$and":[{"updatedAt":{"$gte":D(1000),"$lte":D(1099)},"$and":[{"type":None}]},{}]},P))
t('upper end open',lambda: d.find({"updatedAt":{"$gte":D(1000)}},P))
