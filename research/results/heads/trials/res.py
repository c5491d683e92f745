from cf import *
from axes2 import *
import torch.nn.functional as F_
def sinkhorn(s,m,it=0): return s
def closed(A,P,E,logm): # normalised exponential scores of instances with axes z
    S=P@E.T; return S-logsumexp(S+logm,axis=1,keepdims=True)
def resv(kind,F=5,ens=1,hidden=(64,64,32),drop=0.,width=16,bt=None,negs=1,wd=0.,epochs=30,lr=1e-3,patience=8,zx=True,ze=True,net=True,bt_scale=50,cor_b=False,floor=True,delta=0.,edecay=1.,AX=Axes,axkw={},lin2=False,hyb=False,a0=1.):
    """f = a*(e_t.z(x) - C(x)) + MLP(x,z,e_t); e cross-fitted by user folds; MLP starts at 0; at scoring the full e and exact normalisation"""
    def run(w,d,s,cache):
        P,Pt=phis(kind,w,d,s,cache); u,t=d.u.numpy(),d.t.numpy(); rng=np.random.default_rng(s)
        A=AX(P,u,t,d.T,width=width,**axkw); ufold=rng.integers(F,size=len(w.X)); fold=ufold[u]; vu=np.unique(w.u[w.va]); 
        E,nf=A.folds(u,t,fold,F,d.T); full=A.e; Z=A.Z; Zt=A.z(Pt); logm=np.log(np.maximum(d.m.numpy(),1e-9)); En=A.place(w.new_u,w.new_t,w.n_new)
        isval=np.zeros(len(w.X),bool); isval[vu]=True
        Cu=np.zeros(len(Z)); 
        for k in range(F):
            i=(ufold==k)&~isval; Cu[i]=logsumexp(Z[i]@E[k].T+logm,axis=1)
        Cu[isval]=logsumexp(Z[isval]@full.T+logm,axis=1); Ct=logsumexp(Zt@full.T+logm,axis=1)
        base_t=Zt@full.T-Ct[:,None]; base_n=Zt@En.T-Ct[:,None]
        if a0!=1.: # scaled closed form, normalised again
            full,En,E=full*a0,En*a0,E*a0; A.e=full
            for k in range(F):
                i=(ufold==k)&~isval; Cu[i]=logsumexp(Z[i]@E[k].T+logm,axis=1)
            Cu[isval]=logsumexp(Z[isval]@full.T+logm,axis=1); Ct=logsumexp(Zt@full.T+logm,axis=1); base_t=Zt@full.T-Ct[:,None]; base_n=Zt@En.T-Ct[:,None]
        if not net: return base_t,base_n,f'r={A.r}'
        sc=1/np.sqrt(A.lam[0]*A.lam)**.5
        sc=sc/a0; raw=torch.from_numpy(np.concatenate([E.reshape(F*d.T,-1),full]).astype(np.float32)); Eall=(raw.numpy()*sc).astype(np.float32)
        X0,Xt0=d.X,d.Xt; d0=D(); d0.__dict__.update(d.__dict__); Enf=(En*sc).astype(np.float32)
        if zx: d.X=torch.from_numpy(np.concatenate([w.X,Z],1).astype(np.float32)); d.Xt=torch.from_numpy(np.concatenate([w.Xt,Zt],1).astype(np.float32)); d.dim=d.X.shape[1]
        d2=D(); d2.__dict__.update(d.__dict__); d2.t=torch.from_numpy(fold*d.T+t); d2.vt=d.vt+F*d.T; d2.vnt=d.vnt+F*d.T; d2.n=d.n
        Zf=torch.from_numpy(Z.astype(np.float32)); Cf=torch.from_numpy(Cu.astype(np.float32))
        offset=lambda u,t: (Zf[u]*raw[t]).sum(1)-Cf[u]
        if lin2:
            soft=lambda q: torch.log(0.05+F_.softplus(8*(1+q-.05))/8)
            offset2=lambda u,t: soft((Zf[u]*raw[t]).sum(1))
        B=bt or int(np.clip(d.N/bt_scale,128,1024)); fs,fn,info=[],[],[f'r={A.r}']
        for k in range(ens):
            torch.manual_seed(1000*s+k); m=Concat(d2,Eall,hidden,drop,offset)
            if lin2: m.off2=offset2; m.b=nn.Parameter(torch.zeros(1))
            if hyb:
                if k==0: st=learned_start(d0,64,seed=s); Eall=np.concatenate([Eall,np.tile(st.e,(F+1,1))],1); Enf=np.concatenate([(En*sc),st.place(w.new_u,w.new_t,w.n_new)],1).astype(np.float32); d2.dim=d.dim; m=Concat(d2,Eall,hidden,drop,offset)
            if delta: m.fixed=torch.from_numpy(Eall); m.E=nn.Parameter(torch.zeros(d.T,Eall.shape[1]))
            nn.init.zeros_(m.net[-1].weight); nn.init.zeros_(m.net[-1].bias)
            l0=val_loss(m,d2); l,be=train(m,d2,batch=B,task_rate=delta,edecay=edecay if delta else 0.,wd=wd,negs=negs,epochs=epochs,lr=lr,patience=patience,floor=floor); a=m.a.item(); info.append(f'{l0:.4f}>{l:.4f}/{be} a={a:.2f}')
            fs.append(m.matrix(d.Xt,m.E[F*d.T:] if not delta else m.fixed[F*d.T:]+m.E)+a*base_t+(m.b.item()*soft(torch.from_numpy(Zt@full.T)).numpy() if lin2 else 0)); fn.append(m.matrix(d.Xt,torch.from_numpy(Enf))+a*base_n+(m.b.item()*soft(torch.from_numpy(Zt@En.T)).numpy() if lin2 else 0)); info.append(f'b={m.b.item():.2f}' if lin2 else '')
        d.X,d.Xt,d.dim=X0,Xt0,w.X.shape[1]
        return np.mean(fs,0),np.mean(fn,0),' '.join(info)
    return run
for k in ('x','x+gd8','x+gd16','x+gd32','gd16','x+gf9','x+gf16'):
    V[f'ce_{k}']=resv(k,net=False); V[f'res_{k}']=resv(k); V[f'res3_{k}']=resv(k,ens=3)
V['res_wd']=resv('x+gd16',wd=.1); V['res_wd1']=resv('x+gd16',wd=1.); V['res_drop']=resv('x+gd16',drop=.1); V['res_neg4']=resv('x+gd16',negs=4); V['res_nozx']=resv('x+gd16',zx=False); V['res_F2']=resv('x+gd16',F=2); V['res_F10']=resv('x+gd16',F=10)
V['res_h32']=resv('x+gd16',hidden=(32,32)); V['res_w24']=resv('x+gd16',width=24); V['res_b1024']=resv('x+gd16',bt=1024)

V['res_d.1']=resv('x+gd16',delta=.1); V['res_d.1_e.1']=resv('x+gd16',delta=.1,edecay=.1); V['res_d1_e1']=resv('x+gd16',delta=1.,edecay=1.); V['res_d.3_e3']=resv('x+gd16',delta=.3,edecay=3.)
V['res_x+gd16+p64']=resv('x+gd16+p64'); V['res_x+gd16+gd32']=resv('x+gd16+gd32'); V['res_x+q']=resv('x+q'); V['res_x+gd24']=resv('x+gd24'); V['res_x+gf24']=resv('x+gf24')
V['res_lr2']=resv('x+gd16',lr=2e-3); V['res_b512']=resv('x+gd16',bt=512); V['res_h128']=resv('x+gd16',hidden=(128,64,32)); V['res_wd.3']=resv('x+gd16',wd=.3)

for k in ('x','gd16','gf9','x+gd8','x+gd16','x+gd32','x+gf9','x+gf16','x+gd16+gd32'):
    V[f'ce2_{k}']=resv(k,net=False,AX=Axes2); V[f'res2_{k}']=resv(k,AX=Axes2)
V['ce2_z0']=resv('x+gd16',net=False,AX=Axes2,axkw=dict(zmin=0.)); V['ce2_k2']=resv('x+gd16',net=False,AX=Axes2,axkw=dict(kscale=2.)); V['ce2_cap50']=resv('x+gd16',net=False,AX=Axes2,axkw=dict(cap=50)); V['ce2_r1e-2']=resv('x+gd16',net=False,AX=Axes2,axkw=dict(ridge=1e-2))
def cv_score(P,u,t,T,ufold,F,width=16,AX=Axes2,**kw):
    """held-out mean of the normalised closed-form score: log-likelihood of 'which item', by folds of users"""
    tot=0; fold=ufold[u]
    for f in range(F):
        tr=fold!=f; A=AX(P,u[tr],t[tr],T,width=width,**kw); n=np.bincount(t[tr],minlength=T); lm=np.log(np.maximum(n/n.sum(),1e-9))
        te=np.flatnonzero(~tr); te=np.random.default_rng(f).permutation(te)[:4000]; S=A.Z[u[te]]@A.e.T; r=S[np.arange(len(te)),t[te]]-logsumexp(S+lm,axis=1); tot+=r.sum()/len(te)
    return tot/F
CANDS=('x','gd8','gd16','gd32','x+gd8','x+gd16','x+gd32')
def autov(cands=CANDS,F=3,subs=30000,**kw):
    def run(w,d,s,cache):
        c={}; u,t=d.u.numpy(),d.t.numpy(); rng=np.random.default_rng(s); uf=rng.integers(F,size=len(w.X)); sc={}
        # the choice needs no more than `subs` exposures: per item at most subs/T
        o=rng.permutation(len(u)); cnt=np.zeros(d.T,int)
        if len(u)>subs:
            rank=np.empty(len(u),int); so=o[np.argsort(t[o],kind='stable')]; st=np.searchsorted(t[so],np.arange(d.T)); rank[so]=np.arange(len(u))-st[t[so]]; k=rank<max(subs//d.T,20); 
        else: k=np.ones(len(u),bool)
        k=np.ones(len(u),bool) if subs>=10**9 else k
        for kind in cands:
            P,_=phis(kind,w,d,s,c); sc[kind]=cv_score(P,u[k],t[k],d.T,uf,F)
        best=max(sc,key=sc.get); f,fn,info=resv(best,AX=Axes2,**kw)(w,d,s,c)
        return f,fn,best+' '+info+' '+' '.join(f'{a}:{b:.4f}' for a,b in sc.items())
    return run
V['auto_ce']=autov(net=False); V['auto']=autov(); V['autoall']=autov(subs=10**9)
V['auto3']=autov(ens=3)
V['auto_wd.3']=autov(wd=.3)

V['res2_lin2']=resv('x+gd16',AX=Axes2,lin2=True)
V['res2_wd.3']=resv('x+gd16',AX=Axes2,wd=.3); V['res2_wd1']=resv('x+gd16',AX=Axes2,wd=1.)
V['res2_w24']=resv('x+gd16',AX=Axes2,width=24)
V['res2_d1wd']=resv('x+gd16',AX=Axes2,wd=.3,delta=1.,edecay=1.)
def oracle(w,d,s,cache):
    from scipy.special import softmax
    S=softmax(w.lg+np.log(w.pbar),axis=1)/w.pbar; St=softmax(w.lgt+np.log(w.pbar),axis=1)/w.pbar
    # empirical-Bayes logistic-normal is out of reach here: EM with the best Dirichlet strength, and Axes2 on the true groups
    A=Axes2(S[:,1:],d.u.numpy(),d.t.numpy(),d.T); Zt=A.z(St[:,1:]); f=np.log(np.maximum(1+Zt@A.e.T,.05)); return f,np.log(np.maximum(1+Zt@A.place(w.new_u,w.new_t,w.n_new).T,.05)),''
V['oracle_lin']=oracle
def oracle2(al):
    def run(w,d,s,cache):
        from scipy.special import softmax
        S=softmax(w.lg+np.log(w.pbar),axis=1)/w.pbar; St=softmax(w.lgt+np.log(w.pbar),axis=1)/w.pbar
        pi=em_pi(S[d.u],d.t.numpy(),d.T,w.pbar,al); pn=em_pi(S[w.new_u],w.new_t,w.n_new,w.pbar,al); return np.log(St@pi.T),np.log(St@pn.T),''
    return run
V['oracle_em10']=oracle2(10.)
XC=('x','x+gd8','x+gd16','x+gd32')
V['auto_l2']=autov(lin2=True,wd=.3); V['autoall_l2']=autov(lin2=True,wd=.3,subs=10**9); V['autox_l2']=autov(cands=XC,lin2=True,wd=.3,subs=10**9)
V['auto_wd1']=autov(wd=1.)

V['auto_hyb']=autov(hyb=True,delta=.1,edecay=1e-9); V['auto_d1']=autov(delta=1.,edecay=1.); V['auto_hyb0']=autov(hyb=True)

for k in ('t','x+gd16+t'): V['ce2_'+k]=resv(k,AX=Axes2,net=False); V['res2_'+k]=resv(k,AX=Axes2)
V['res2_t_d']=resv('t',AX=Axes2,delta=.1,edecay=1.)
def val_ll(P,w,d,width=16):
    u,t=d.u.numpy(),d.t.numpy(); A=Axes2(P,u,t,d.T,width=width); lm=np.log(np.maximum(d.m.numpy(),1e-9)); vu,vt=d.vu.numpy(),d.vt.numpy(); uq,inv=np.unique(vu,return_inverse=True)
    S=A.Z[uq]@A.e.T; S-=logsumexp(S+lm,axis=1,keepdims=True); return S[inv,vt]
def auto2(cands=CANDS,F=3,subs=30000,zsel=1.,**kw):
    '''as auto, then the trunk of towers trained on 'which item' joins if it makes the validation users' closed-form likelihood better by zsel standard errors'''
    def run(w,d,s,cache):
        c={}; u,t=d.u.numpy(),d.t.numpy(); rng=np.random.default_rng(s); uf=rng.integers(F,size=len(w.X)); sc={}
        k=np.ones(len(u),bool)
        if len(u)>subs:
            o=rng.permutation(len(u)); rank=np.empty(len(u),int); so=o[np.argsort(t[o],kind='stable')]; st=np.searchsorted(t[so],np.arange(d.T)); rank[so]=np.arange(len(u))-st[t[so]]; k=rank<max(subs//d.T,20)
        for kind in cands: P,_=phis(kind,w,d,s,c); sc[kind]=cv_score(P,u[k],t[k],d.T,uf,F)
        best=max(sc,key=sc.get); P,_=phis(best,w,d,s,c); base=val_ll(P,w,d,kw.get('width',16)); vu=d.vu.numpy(); note=''
        def gain(kind):
            P,_=phis(kind,w,d,s,c); g=val_ll(P,w,d,kw.get('width',16))-base; gu=np.bincount(vu,g); se=np.sqrt((gu**2).sum())/len(g); return g.mean(),se
        pick=best; top=0
        for kind in ('t',best+'+t'):
            g,se=gain(kind); note+=f' {kind}:{g:+.4f}/{se:.4f}'
            if g>zsel*se and g>top: pick,top=kind,g
        f,fn,info=resv(pick,AX=Axes2,**kw)(w,d,s,c)
        return f,fn,pick+' '+info+note
    return run
V['auto2']=auto2(); V['auto2_d']=auto2(delta=.1,edecay=1.)
V['tow_d']=towv_d if False else V['tow_drop']
V['res2_p64']=resv('p64',AX=Axes2); V['res2_pall']=resv('p9999',AX=Axes2)
V['res2_x_hyb']=resv('x',AX=Axes2,hyb=True,delta=.1,edecay=1e-9)

GRID=(.25,.5,.7,.85,1.)
def cv_score_a(P,u,t,T,ufold,F,width=16):
    tot=np.zeros(len(GRID)); fold=ufold[u]
    for f in range(F):
        tr=fold!=f; A=Axes2(P,u[tr],t[tr],T,width=width); n=np.bincount(t[tr],minlength=T); lm=np.log(np.maximum(n/n.sum(),1e-9))
        te=np.flatnonzero(~tr); te=np.random.default_rng(f).permutation(te)[:4000]; S=A.Z[u[te]]@A.e.T
        for j,a in enumerate(GRID): tot[j]+=(a*S[np.arange(len(te)),t[te]]-logsumexp(a*S+lm,axis=1)).mean()/F
    return tot.max(),GRID[int(tot.argmax())]
def val_ll_a(P,w,d,width=16):
    u,t=d.u.numpy(),d.t.numpy(); A=Axes2(P,u,t,d.T,width=width); lm=np.log(np.maximum(d.m.numpy(),1e-9)); vu,vt=d.vu.numpy(),d.vt.numpy(); uq,inv=np.unique(vu,return_inverse=True); S0=A.Z[uq]@A.e.T; best=None
    for a in GRID:
        S=a*S0; S=S-logsumexp(S+lm,axis=1,keepdims=True); g=S[inv,vt]
        if best is None or g.mean()>best[0].mean(): best=(g,a)
    return best
def auto3(cands=CANDS,F=3,subs=30000,zsel=1.,trunk=True,**kw):
    def run(w,d,s,cache):
        c={}; u,t=d.u.numpy(),d.t.numpy(); rng=np.random.default_rng(s); uf=rng.integers(F,size=len(w.X)); sc={}; k=np.ones(len(u),bool)
        if len(u)>subs:
            o=rng.permutation(len(u)); rank=np.empty(len(u),int); so=o[np.argsort(t[o],kind='stable')]; st=np.searchsorted(t[so],np.arange(d.T)); rank[so]=np.arange(len(u))-st[t[so]]; k=rank<max(subs//d.T,20)
        for kind in cands: P,_=phis(kind,w,d,s,c); sc[kind]=cv_score_a(P,u[k],t[k],d.T,uf,F)
        pick=max(sc,key=lambda q:sc[q][0]); P,_=phis(pick,w,d,s,c); base,a0=val_ll_a(P,w,d); note=''; best=pick
        if trunk:
            top=0; vu=d.vu.numpy()
            for kind in ('t',best+'+t'):
                P,_=phis(kind,w,d,s,c); g,a=val_ll_a(P,w,d); g=g-base; se=np.sqrt((np.bincount(vu,g)**2).sum())/len(g); note+=f' {kind}:{g.mean():+.4f}/{se:.4f}'
                if g.mean()>zsel*se and g.mean()>top: pick,top,a0=kind,g.mean(),a
        f,fn,info=resv(pick,AX=Axes2,a0=a0,**kw)(w,d,s,c)
        return f,fn,f'{pick} a0={a0} '+info+note+' '+' '.join(f'{q}:{v[0]:.4f}@{v[1]}' for q,v in sc.items())
    return run
V['auto3']=auto3(); V['auto3nt']=auto3(trunk=False)
V['res2_x_hyb_a']=resv('x',AX=Axes2,hyb=True,delta=.1,edecay=1e-9,a0=.4)
