import numpy as np
from scipy.special import logsumexp
class W: pass
def sizes_pl(rng,n,lo=40,hi=6000,a=0.4):
    u=(np.arange(n)+rng.random(n))/n; u=rng.permutation(u)
    return (lo**-a-u*(lo**-a-hi**-a))**(-1/a)
def split_users(rng,U): 
    part=np.zeros(U,int); p=rng.permutation(U); part[p[:U//10]]=1; return part   # 1 = validation
def finish(w,rng,cap,n_items,n_new,lr_test,exp_u,exp_t,sizes_all):
    """cap the log, split off unseen items, adjust truth. lr_test (test users x all items) log q_t - any base"""
    keep=np.ones(len(exp_u),bool)
    if cap:
        o=rng.permutation(len(exp_u)); cnt=np.zeros(n_items+n_new,int)
        for i in o:
            t=exp_t[i]
            if t>=n_items: continue          # new items keep all
            if cnt[t]>=cap: keep[i]=False
            else: cnt[t]+=1
    eu,et=exp_u[keep],exp_t[keep]
    old=et<n_items
    w.u,w.t=eu[old],et[old]
    part=split_users(rng,len(w.X))
    w.tr=part[w.u]==0; w.va=part[w.u]==1
    w.new_u,w.new_t=eu[~old],et[~old]-n_items
    m=np.bincount(w.t,minlength=n_items)/len(w.t)
    w.m=m
    base=logsumexp(lr_test[:,:n_items]+np.log(np.maximum(m,1e-12)),axis=1,keepdims=True)
    w.r=lr_test[:,:n_items]-base; w.r_new=lr_test[:,n_items:]-base
    w.n_items=n_items; w.n_new=n_new
    w.n=np.bincount(w.t,minlength=n_items)
    mu=w.X[w.u[w.tr]].mean(0); sd=w.X[w.u[w.tr]].std(0)+1e-9
    w.X=((w.X-mu)/sd).astype(np.float32); w.Xt=((w.Xt-mu)/sd).astype(np.float32)
    return w
def world_a(seed,cap=None,U=12000,T=240,new=40,d=12,K=9,sep=0.8,conc=1.7,aniso=0.15,ntest=1500,PI=None,rank=None,indep=0.):
    rng=np.random.default_rng([seed,1]); w=W()
    mu=rng.normal(size=(K,d))*sep
    L=np.stack([np.linalg.qr(rng.normal(size=(d,d)))[0]*np.exp(aniso*rng.normal(size=d)) for _ in range(K)])
    base=rng.dirichlet(np.ones(K)*5)
    pi=rng.dirichlet(base*K*conc,size=T+new)
    pi=0.98*pi+0.02*base
    if PI:
        g=rng.normal(size=(T+new,K)) if not rank else rng.normal(size=(T+new,rank))@rng.normal(size=(rank,K))/np.sqrt(rank)+indep*rng.normal(size=(T+new,K))
        pi=base*np.exp(PI*g); pi/=pi.sum(1,keepdims=True)
    comp=rng.choice(K,size=U,p=base)
    draw=lambda c: mu[c]+np.einsum('nij,nj->ni',L[c],rng.normal(size=(len(c),d)))
    w.X=draw(comp); by=[np.flatnonzero(comp==j) for j in range(K)]
    sz=np.concatenate([sizes_pl(rng,T),sizes_pl(rng,new)]).astype(int)
    eu,et=[],[]
    for t in range(T+new):
        c=rng.multinomial(sz[t],pi[t])
        for j in range(K):
            eu.append(rng.choice(by[j],size=c[j])); et.append(np.full(c[j],t))
    eu,et=np.concatenate(eu),np.concatenate(et)
    cnt=np.minimum(np.bincount(et[et<T]),cap or 10**9); m=cnt/cnt.sum(); pbar=m@pi[:T]
    w.Xt=draw(rng.choice(K,size=ntest,p=pbar))
    Li=np.linalg.inv(L); ld=np.array([np.linalg.slogdet(l)[1] for l in L])
    z=np.einsum('kij,nkj->nki',Li,w.Xt[:,None]-mu[None]); lg=-0.5*(z**2).sum(-1)-ld
    lq=logsumexp(lg[:,None,:]+np.log(pi)[None],axis=2)
    w.lgt=lg; w.pi_true=pi; zz=np.einsum('kij,nkj->nki',Li,w.X[:,None]-mu[None]); w.lg=-0.5*(zz**2).sum(-1)-ld; w.pbar=pbar
    return finish(w,rng,cap,T,new,lq,eu,et,sz)
def world_b(seed,cap=None,U=8000,T=300,new=40,d=12,k=6,N=150000,scale=0.45,ntest=1500,PI=None,rank=None,indep=0.):
    rng=np.random.default_rng([seed,2]); w=W()
    bend=rng.normal(size=(k,k))*0.8; mix=rng.normal(size=(2*k,d))/np.sqrt(2*k)
    feat=lambda z: np.concatenate([z,np.tanh(z@bend)],1)@mix
    z=rng.normal(size=(U,k)); act=np.exp(rng.normal(size=U)); act/=act.sum()
    v=rng.normal(size=(T+new,k))*scale; pop=sizes_pl(rng,T+new); 
    lp=z@v.T+np.log(pop); lp-=logsumexp(lp,axis=1,keepdims=True)
    us=rng.choice(U,size=int(N*(T+new)/T),p=act)
    P=np.exp(lp); cum=P.cumsum(1); et=np.minimum((cum[us]<rng.random(len(us))[:,None]).sum(1),T+new-1)
    w.X=feat(z)
    zt=rng.normal(size=(ntest,k)); w.Xt=feat(zt)
    lt=zt@v.T+np.log(pop); lt-=logsumexp(lt,axis=1,keepdims=True)
    logPt=np.log(act@P)
    return finish(w,rng,cap,T,new,lt-logPt,us,et,None)
AK=dict(sep=1.4,PI=.6,rank=3,indep=.5)
def world_n(seed,cap=None,U=8000,T=300,new=40,d=12,N=150000,scale=0.6,ntest=1500):
    'tastes are products and waves of features that have no groups: nothing linear, nothing clustered'
    rng=np.random.default_rng([seed,3]); w=W(); Wp=np.linalg.qr(rng.normal(size=(d,d)))[0]
    def g(x):
        y=x@Wp; return np.stack([np.tanh(2*y[:,0]*y[:,1]),np.tanh(2*y[:,2]*y[:,3]),np.tanh(2*y[:,4]*y[:,5]),np.cos(2*y[:,6]),np.sin(2*y[:,7]),np.cos(2*y[:,8])],1)
    x=rng.normal(size=(U,d)); act=np.exp(rng.normal(size=U)); act/=act.sum(); v=rng.normal(size=(T+new,6))*scale; pop=sizes_pl(rng,T+new)
    lp=g(x)@v.T+np.log(pop); lp-=logsumexp(lp,axis=1,keepdims=True); us=rng.choice(U,size=int(N*(T+new)/T),p=act); P=np.exp(lp); cum=P.cumsum(1); et=np.minimum((cum[us]<rng.random(len(us))[:,None]).sum(1),T+new-1)
    w.X=x; w.Xt=rng.normal(size=(ntest,d)); lt=g(w.Xt)@v.T+np.log(pop); lt-=logsumexp(lt,axis=1,keepdims=True)
    return finish(w,rng,cap,T,new,lt-np.log(act@P),us,et,None)
WORLDS={'N':lambda s:world_n(s),'N50':lambda s:world_n(s,50),'A':lambda s:world_a(s,**AK),'A100':lambda s:world_a(s,100,**AK),'A20':lambda s:world_a(s,20,**AK),'H':lambda s:world_a(s),'H100':lambda s:world_a(s,100),'H20':lambda s:world_a(s,20),
        'B':lambda s:world_b(s),'B50':lambda s:world_b(s,50)}
def cor_items(f,r):
    a=f-f.mean(0); b=r-r.mean(0); return (a*b).sum(0)/np.sqrt((a**2).sum(0)*(b**2).sum(0)+1e-12)
def auc_truth(w):
    from scipy.stats import rankdata
    out=[]
    for t in range(w.n_items):
        r=w.r[:,t]; wt=np.exp(r); o=np.argsort(r); c=np.cumsum(wt[o]); out.append(((np.arange(len(r))+.5)*wt[o]).sum()/len(r)/wt.sum())
    return np.mean(out)
