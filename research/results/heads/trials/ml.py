import sys; from res import *
import scipy.sparse as sp, csv
def load():
    R=np.array([l.split('::')[:2] for l in open('data/ml-1m/ratings.dat',encoding='latin1')],int); U=[l.strip().split('::') for l in open('data/ml-1m/users.dat',encoding='latin1')]
    return R[:,0]-1,R[:,1],U
def ids_world(split,thin=None,k=32,minc=10,prior=3.,cold=0.1):
    rng=np.random.default_rng([split,9]); u,i,_=load()
    if thin: o=rng.permutation(len(u)); u,i=u[o],i[o]; ordr=np.argsort(u,kind='stable'); u,i=u[ordr],i[ordr]; st=np.searchsorted(u,np.arange(u.max()+1)); rank=np.arange(len(u))-st[u]; lim=np.maximum(2,np.exp(rng.normal(np.log(thin)-.3,.8,size=u.max()+1))); kp=rank<lim[u]; u,i=u[kp],i[kp]
    c=np.bincount(i); items=np.flatnonzero(c>=minc); items=rng.permutation(items); mp=np.full(len(c),-1); mp[items]=np.arange(len(items)); kp=mp[i]>=0; u,t=u[kp],mp[i[kp]]
    NI=len(items); nc=int(cold*NI); T=NI-nc; NU=u.max()+1   # items T..NI are cold
    part=np.zeros(NU,int); p=rng.permutation(NU); part[p[:NU//10]]=2; part[p[NU//10:NU//5]]=1
    warm=t<T
    tr=(part[u]==0)&warm; A=sp.csr_matrix((np.ones(tr.sum()),(u[tr],t[tr])),shape=(NU,T)); du=np.asarray(A.sum(1)).ravel(); di=np.asarray(A.sum(0)).ravel()
    iu,ii=1/np.sqrt(np.maximum(du,1)),1/np.sqrt(np.maximum(di,1)); M=sp.diags(iu)@A@sp.diags(ii)
    from sklearn.utils.extmath import randomized_svd
    _,s_,Vt=randomized_svd(M,k+1,n_iter=12,random_state=0); V_=(Vt[1:].T*ii[:,None]); mean=(di@V_)/di.sum(); V_=V_-mean; V_/=np.sqrt((di@V_**2)/di.sum())
    side=rng.integers(2,size=len(u))
    def fold_in(mask): 
        m=mask&warm; B=sp.csr_matrix((np.ones(m.sum()),(u[m],t[m])),shape=(NU,T)); n=np.asarray(B.sum(1)).ravel(); return (B@V_)/(n[:,None]+prior)
    x0,x1=fold_in(side==1),fold_in(side==0)  # instance (u,h) from the other side
    w=W(); X=np.concatenate([x0,x1]); inst=u+NU*side
    # validation and test users: side 1 shown, side 0 asked -> instance (u,0)
    vt=(part[u]==1)&(side==0); te=(part[u]==2)&(side==0); trn=part[u]==0
    keep=(trn|vt)&warm; w.u,w.t=inst[keep],t[keep]; w.tr=trn[keep]; w.va=vt[keep]; w.n_items=T; w.n_new=nc
    cm=trn&~warm; w.new_u,w.new_t=inst[cm],t[cm]-T
    tu=np.flatnonzero(part==2); pos=np.full(NU,-1); pos[tu]=np.arange(len(tu)); w.Xt=X[tu]
    w.te_u,w.te_t=pos[u[te]],t[te]; sh=(part[u]==2)&(side==1); w.shown=np.zeros((len(tu),NI),bool); w.shown[pos[u[sh]],t[sh]]=True
    mu,sd=X[w.u[w.tr]].mean(0),X[w.u[w.tr]].std(0); w.X=((X-mu)/sd).astype(np.float32); w.Xt=((w.Xt-mu)/sd).astype(np.float32); w.NI=NI
    w.n=np.bincount(w.t,minlength=T); return w
def fields_world(split,nm=200):
    rng=np.random.default_rng([split,8]); u,i,Us=load(); c=np.bincount(i); items=rng.permutation(np.flatnonzero(c>=100))[:nm+40]; mp=np.full(len(c),-1); mp[items]=np.arange(len(items)); kp=mp[i]>=0; u,t=u[kp],mp[i[kp]]
    ages=sorted({r[2] for r in Us}); X=np.zeros((len(Us),1+7+21))
    for r in Us: j=int(r[0])-1; X[j,0]=r[1]=='F'; X[j,1+ages.index(r[2])]=1; X[j,8+int(r[3])]=1
    NU=len(Us); part=np.zeros(NU,int); p=rng.permutation(NU); part[p[:NU//5]]=2; part[p[NU//5:NU//5+NU//12]]=1
    w=W(); warm=t<nm; keep=(part[u]<2)&warm; w.u,w.t=u[keep],t[keep]; w.tr=part[w.u]==0; w.va=part[w.u]==1; w.n_items=nm; w.n_new=40; cm=(part[u]==0)&~warm; w.new_u,w.new_t=u[cm],t[cm]-nm
    tu=np.flatnonzero(part==2); pos=np.full(NU,-1); pos[tu]=np.arange(len(tu)); te=part[u]==2; w.te_u,w.te_t=pos[u[te]],t[te]; w.Xt=X[tu]; w.NI=nm+40; w.shown=np.zeros((len(tu),w.NI),bool)
    mu,sd=X[w.u[w.tr]].mean(0),X[w.u[w.tr]].std(0)+1e-6; w.X=((X-mu)/sd).astype(np.float32); w.Xt=((w.Xt-mu)/sd).astype(np.float32); w.n=np.bincount(w.t,minlength=nm); return w
def real_measure(f,fn,w,m):
    o={}
    def one(Fm,off,ids,tag):
        act=np.bincount(w.te_u[w.te_t<w.n_items],minlength=len(w.Xt)).astype(float); A=[];wt=[];Ls=[];ys=[];fs=[];ws=[];per=[]
        for j in ids:
            pu=w.te_u[w.te_t==j+off]
            if len(pu)<5: continue
            neg=act*(~w.shown[:,j+off]); g=Fm[:,j]; o_=np.argsort(g,kind='stable'); gs=g[o_]; cn=np.cumsum(neg[o_]); tot=cn[-1]
            lo=np.searchsorted(gs,g[pu],'left'); hi=np.searchsorted(gs,g[pu],'right'); c0=np.concatenate([[0],cn]); a=((c0[lo]+c0[hi])/2/tot).mean(); A.append(a); wt.append(len(pu))
            Ls.append(np.logaddexp(0,-g[pu]).sum()+len(pu)*(neg*np.logaddexp(0,g)).sum()/tot); fs+= [g[pu],g]; ys+=[np.ones(len(pu)),np.zeros(len(g))]; ws+=[np.ones(len(pu)),len(pu)*neg/tot]
        wt=np.array(wt); A=np.array(A); o['auc'+tag]=(A*wt).sum()/wt.sum(); o['aucm'+tag]=A.mean(); o['dloss'+tag]=sum(Ls)/wt.sum()-2*math.log(2)
        if tag in('','N'):
            fs,ys,ws=map(np.concatenate,(fs,ys,ws)); b=np.array([0.,1.])
            for _ in range(12):
                q=1/(1+np.exp(-(b[0]+b[1]*fs))); g1=ws*(ys-q); h=ws*q*(1-q); b=b+np.linalg.solve([[h.sum(),(h*fs).sum()],[(h*fs).sum(),(h*fs*fs).sum()]],[g1.sum(),(g1*fs).sum()])
            o['slope'+tag]=b[1]; q=1/(1+np.exp(-fs)); od=np.argsort(q); cw=np.cumsum(ws[od]); bins=np.minimum((cw/cw[-1]*10).astype(int),9); o['cal'+tag]=sum(abs((ws[od]*(q[od]-ys[od]))[bins==k].sum()) for k in range(10))/cw[-1]
    Z=logsumexp(f+np.log(np.maximum(m,1e-12)),axis=1,keepdims=True)
    one(f,0,range(w.n_items),''); one(f-Z,0,range(w.n_items),'N')
    if fn is not None: one(fn-Z,w.n_items,range(w.n_new),'_cold'); 
    return o
if __name__=='__main__':
    which,names,splits=sys.argv[1],sys.argv[2].split(','),[int(s) for s in sys.argv[3].split(',')]; import collections; agg=collections.defaultdict(list)
    V['auto_w32']=autov(width=32); V['res2_x_w32']=resv('x',AX=Axes2,width=32); V['res2_x+gd16_w32']=resv('x+gd16',AX=Axes2,width=32); V['ce2_x_w32']=resv('x',AX=Axes2,width=32,net=False)
    for s in splits:
        w={'full':lambda:ids_world(s),'thin':lambda:ids_world(s,10),'fields':lambda:fields_world(s)}[which]()
        print(which,s,'train',w.tr.sum(),'items',w.n_items,'test exposures',len(w.te_u),flush=True)
        for n in names:
            d=prep(w,s); t0=time.process_time(); f,fn,info=V[n](w,d,s,{}); cpu=time.process_time()-t0; o=real_measure(f,fn,w,d.m.numpy()); o['cpu']=cpu; agg[n].append(o)
            with open('ml.csv','a') as fh: csv.writer(fh).writerow([which,s,n]+[f'{a}={b:.4f}' for a,b in o.items()]+[info])
            print(n,{a:round(float(b),4) for a,b in o.items()},info[:100],flush=True)
    for n,v in agg.items(): print('MEAN',which,n,{a:(round(float(np.mean([o[a] for o in v])),4),round(float(np.std([o[a] for o in v],ddof=1)),4) if len(v)>1 else 0) for a in v[0]},flush=True)
